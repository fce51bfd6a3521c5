"""Gradient SHAP, or expected gradients (Erion et al., 2021; Lundberg's SHAP package).

Captum's own class draws from the process's one generator, which other threads use too, so
its definition is followed here on batches prepared from a generator of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from explainers.attention_call import exact
from explainers.heatmap import Finding
from explainers.methods import baselines
from explainers.methods.pixel_maps import RESOLUTION
from explainers.methods.sampling import SEED, draws, typical, uncertainty
from explainers.methods.scoring import Objective, Progress, Scorer
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace

_BATCH = 4  # pictures a model call: Cancel is obeyed between calls
_LARGE_ERROR = 5.0  # per cent


def gradient_shap(
    trace: Trace,
    objective: Objective,
    progress: Progress,
    *,
    baseline: str,
    sigma: float,
    samples: int,
    seed: int,
    resolution: str,
) -> Finding:
    """Mean of (x − x'_k) · ∂y/∂x at x'_k + α_k (x − x'_k), Σ over channels; signed.

    Each draw k has a baseline of its own, x'_k: the chosen one with normal noise of standard
    deviation sigma · (max − min of the input). Its α_k is uniform in the k-th of equal parts
    of 0..1: the same expectation as Captum's independent draws, with less scatter. In
    expectation the values sum to y(x) − E y(x'). figures: by how much they miss
    y(x) − mean y(x'_k), in per cent of it, and ``standard_error``, the root mean square of the
    values' standard errors; they take the draws as independent, which errs on the safe side.
    """
    # Captum brings pyplot along, a second of start-up: only when it is used.
    from captum.attr import Saliency

    pixels = trace.pixels.detach()  # (1, 3, H, W)
    start = baselines.baseline(trace, baseline)[None]
    spread = float(pixels.max() - pixels.min()) * sigma
    generator = draws(seed)
    scorer = Scorer(trace.model, objective, progress, total=2 * samples)
    gradient = Saliency(scorer)
    total, squares, origin, nothing = torch.zeros(4, 1).to(exact(pixels))  # shapes come with k = 0
    for first in range(0, samples, _BATCH):
        count = min(_BATCH, samples - first)
        # Drawn in float32 on the CPU, so that a seed means the same draws everywhere.
        noise = torch.randn((count, *pixels.shape[1:]), generator=generator).to(pixels)
        within = torch.rand((count, 1, 1, 1), generator=generator)
        part = torch.arange(first, first + count).reshape(within.shape)
        alpha = ((part + within) / samples).to(pixels)
        starts = start + spread * noise
        points = (starts + alpha * (pixels - starts)).requires_grad_()
        slopes = gradient.attribute(points, abs=False).detach()
        found = _cells(trace, exact((pixels - starts) * slopes).sum(1), resolution)  # (n, h, w)
        if not first:
            origin = found[0]  # counted from one of the draws, the sums do not cancel out
        total = total + (found - origin).sum(0)
        squares = squares + (found - origin).square().sum(0)
        nothing += exact(scorer(starts)).sum()
    values = origin + total / samples
    variance = (squares - total.square() / samples).clamp_min(0) / (samples - 1)
    uncertain = typical((variance / samples).sqrt())
    whole = objective.of(trace.logits, "logit")  # type: ignore[arg-type]
    difference = float(exact(whole) - nothing / samples)
    error = 100 * abs(float(values.sum()) - difference) / max(abs(difference), 1e-12)
    notes = [uncertainty(values, uncertain)]
    if error > _LARGE_ERROR:
        notes.append(
            Sentence(
                "completeness_samples",
                "The values miss the score they should add up to by {error} %; draw more samples.",
                error=f"{error:.1f}",
            )
        )
    return Finding(
        values.cpu().numpy(),
        kind="pixels" if resolution == "pixel" else "grid",
        figures={
            "completeness_error_percent": error,
            "score_difference": abs(difference),
            "standard_error": uncertain,
        },
        notes=tuple(notes),
    )


def _cells(trace: Trace, values: Tensor, resolution: str) -> Tensor:
    """values (pictures, H, W) as they are, or summed over each patch: (pictures, h, w)."""
    if resolution == "pixel":
        return values
    height, width = trace.model.adapter.patch
    return avg_pool2d(values[None], (height, width))[0] * (height * width)


METHOD = register(
    Method(
        name="gradient_shap",
        title="Gradient SHAP",
        meaning="How much each pixel adds to this class's score on the way to the photo from "
        "noisy pictures of nothing, averaged over random points of many such ways.",
        question="counted",
        class_specific=True,
        signed=True,
        unit="logit",
        needs=("class", "gradients"),
        cost=lambda parameters, patches: 4 * parameters["samples"],
        paper="Erion et al., Improving Performance of Deep Learning Models with Axiomatic "
        "Attribution Priors and Expected Gradients, Nature Machine Intelligence 2021",
        bibtex="""@article{erion2021improving,
  title={Improving Performance of Deep Learning Models with Axiomatic Attribution Priors and
    Expected Gradients},
  author={Erion, Gabriel and Janizek, Joseph D. and Sturmfels, Pascal and Lundberg, Scott M.
    and Lee, Su-In},
  journal={Nature Machine Intelligence}, volume={3}, pages={620--631}, year={2021}}""",
        limits="The values are estimates from random draws: look at their standard error. And "
        'what "nothing" looks like is a choice.',
        function=gradient_shap,
        parameters=(
            baselines.baseline_parameter(
                "baseline", "black", "The picture of nothing that noise is added to."
            ),
            Parameter(
                "sigma",
                0.1,
                "number",
                "Noise of the pictures of nothing, as a share of the photo's range of values.",
                low=0.0,
                high=1.0,
            ),
            Parameter(
                "samples",
                40,
                "integer",
                "How many random points are averaged; more are more exact.",
                low=2,
                high=1000,
            ),
            SEED,
            RESOLUTION,
        ),
    )
)
