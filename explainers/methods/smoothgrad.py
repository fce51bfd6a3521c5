"""SmoothGrad (Smilkov et al., 2017), and its relatives SmoothGrad² and VarGrad.

The gradient over noisy copies of the photo: its mean, its mean square, or its variance.
"""

from __future__ import annotations

import torch

from explainers.attention_call import exact
from explainers.heatmap import Finding
from explainers.methods.pixel_maps import RESOLUTION, pixel_finding
from explainers.methods.sampling import draws
from explainers.methods.scoring import Objective, Progress, Scorer
from explainers.registry import Method, Parameter, register
from explainers.trace import Trace

_BATCH = 4  # pictures a model call: Cancel is obeyed between calls


def smoothgrad(
    trace: Trace,
    objective: Objective,
    progress: Progress,
    *,
    kind: str,
    samples: int,
    sigma: float,
    seed: int,
    resolution: str,
) -> Finding:
    """max over channels of a statistic of g = ∂y/∂pixel over noisy copies: (H, W) of the input.

    kind "mean": |mean g|; "squared": mean g² (Hooker et al., 2019); "variance": mean g² −
    (mean g)² (Adebayo et al., 2018). The noise is normal with standard deviation
    sigma · (max − min of the input). Captum draws its noise from the process's one generator,
    which other threads use too, so the noisy batches are prepared here from a generator of
    their own.
    """
    # Captum brings pyplot along, a second of start-up: only when it is used.
    from captum.attr import Saliency

    pixels = trace.pixels.detach()  # (1, 3, H, W)
    spread = float(pixels.max() - pixels.min()) * sigma
    generator = draws(seed)
    gradient = Saliency(Scorer(trace.model, objective, progress, total=samples))
    total, squares, origin = (torch.zeros_like(exact(pixels[0])) for _ in range(3))
    for first in range(0, samples, _BATCH):
        size = (min(_BATCH, samples - first), *pixels.shape[1:])
        # Drawn in float32 on the CPU, so that a seed means the same noise everywhere.
        noise = torch.randn(size, generator=generator).to(pixels)
        noisy = (pixels + spread * noise).requires_grad_()
        found = exact(gradient.attribute(noisy, abs=False).detach())  # (pictures, 3, H, W)
        if kind == "variance" and not first:
            origin = found[0]  # counted from one of the draws, the sums do not cancel out
        total += (found - origin).sum(0)
        squares += (found - origin).square().sum(0)
    statistic = (total / samples).abs() if kind == "mean" else squares / samples
    if kind == "variance":
        statistic = (statistic - (total / samples).square()).clamp_min(0)
    return pixel_finding(trace, statistic.amax(0), resolution)


METHOD = register(
    Method(
        name="smoothgrad",
        title="SmoothGrad",
        meaning="Saliency, averaged over slightly noisy copies of the photo so that only what "
        "counts again and again remains.",
        question="counted",
        class_specific=True,
        signed=False,
        needs=("class", "gradients"),
        cost=lambda parameters, patches: 3 * parameters["samples"],
        paper="Smilkov et al., SmoothGrad: removing noise by adding noise, 2017",
        bibtex="""@article{smilkov2017smoothgrad,
  title={SmoothGrad: removing noise by adding noise},
  author={Smilkov, Daniel and Thorat, Nikhil and Kim, Been and Vi{\\'e}gas, Fernanda and
    Wattenberg, Martin},
  journal={arXiv:1706.03825}, year={2017}}""",
        limits="The amount of noise is a choice, and the map follows it. The squared mean and the "
        "variance no longer say whether the gradient has one direction.",
        function=smoothgrad,
        parameters=(
            Parameter(
                "kind",
                "mean",
                "choice",
                "The mean of the gradients, the mean of their squares (SmoothGrad²), or their "
                "variance (VarGrad).",
                choices=("mean", "squared", "variance"),
            ),
            Parameter(
                "samples", 24, "integer", "How many noisy copies are averaged.", low=1, high=500
            ),
            Parameter(
                "sigma",
                0.15,
                "number",
                "Noise, as a share of the photo's range of values; 0 is plain saliency.",
                low=0.0,
                high=1.0,
            ),
            Parameter("seed", 0, "integer", "Which noise is drawn.", low=0, high=2**31 - 1),
            RESOLUTION,
        ),
    )
)
