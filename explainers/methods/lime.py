"""LIME (Ribeiro, Singh & Guestrin, KDD 2016) over patches.

Captum's own class draws from the process's one generator, which other threads use too (so
does the data loader it hands its samples to): the fit is done here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.baselines import baseline_parameter
from explainers.methods.hiding import (
    SAMPLED_WINDOW,
    SCORE,
    sampled_squares,
    scores_of,
    spread_evenly,
)
from explainers.methods.sampling import SEED, draws
from explainers.methods.scoring import Objective, Progress, Score, Scorer
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace

_POOR_FIT = 0.5


def lime(
    trace: Trace,
    objective: Objective,
    progress: Progress,
    *,
    samples: int,
    window: int,
    width: float,
    ridge: float,
    fill: str,
    score: Score,
    seed: int,
) -> Finding:
    """The weight of each patch (h, w) in a linear model of the score around the photo; signed.

    As in the authors' code for images: the photo itself, and copies in which each patch is
    hidden with probability ½, weighted by exp(−d²/(2 width²)), d = 1 − √(share visible) being
    the cosine distance to the photo; ridge regression with an intercept. With squares of
    several patches, a square's weight is shared out over its patches. The figure ``fit`` is
    the weighted R² of the linear model.
    """
    parts = sampled_squares(trace.grid, window, samples)
    shown = torch.rand(samples, int(parts.max()) + 1, generator=draws(seed)) < 0.5
    shown[0] = True
    scorer = Scorer(trace.model, objective, progress, samples, score)
    found = scores_of(trace, scorer, shown, parts, fill)
    distance = 1 - shown.double().mean(1).sqrt()
    values, fit = linear_fit(shown, found, (-distance.square() / (2 * width**2)).exp(), ridge)
    notes = (_poor_fit(fit),) if fit < _POOR_FIT else ()
    return Finding(spread_evenly(values, parts).numpy(), figures={"fit": fit}, notes=notes)


def linear_fit(
    shown: Tensor, scores: Tensor, weights: Tensor, ridge: float
) -> tuple[Tensor, float]:
    """Weighted ridge regression of scores (M,) on shown (M, P): coefficients (P,) and R².

    The intercept is not penalised. Ridge 0 is plain least squares (the smallest solution).
    """
    share = weights / weights.sum()
    x = shown.double() - share @ shown.double()
    y = scores - share @ scores
    root = weights.sqrt()
    penalty = ridge**0.5 * torch.eye(x.shape[1], dtype=torch.float64)
    rows = torch.cat([x * root[:, None], penalty])
    wanted = torch.cat([y * root, torch.zeros(len(penalty), dtype=torch.float64)])
    values = torch.linalg.lstsq(rows, wanted[:, None], driver="gelsd").solution[:, 0]
    spread = float(share @ y.square())
    missed = float(share @ (y - x @ values).square())
    varies = spread > 1e-24 * float(share @ scores.square())  # more than rounding does
    return values, 1 - missed / spread if varies else 1.0


def _poor_fit(fit: float) -> Sentence:
    return Sentence(
        "lime_poor_fit",
        "A sum over patches explains only {percent} % of how the score varies between the hidden "
        "copies: read the weights with care.",
        percent=f"{100 * max(fit, 0):.0f}",
    )


METHOD = register(
    Method(
        name="lime",
        title="LIME",
        meaning="What happens without it: how much each patch adds to this class's probability in "
        "the simple sum over patches that imitates the model best around this photo.",
        question="without",
        class_specific=True,
        signed=True,
        unit="{score}",
        needs=("class",),
        cost=lambda parameters, patches: parameters["samples"],
        paper="Ribeiro, Singh & Guestrin, “Why Should I Trust You?”: Explaining the Predictions "
        "of Any Classifier, KDD 2016",
        bibtex="""@inproceedings{ribeiro2016should,
  title={"Why Should I Trust You?": Explaining the Predictions of Any Classifier},
  author={Ribeiro, Marco Tulio and Singh, Sameer and Guestrin, Carlos},
  booktitle={KDD}, year={2016}}""",
        limits="It explains the imitation, which may fit the model badly (its fit is stated); the "
        "neighbourhood's width, the penalty and the fill are choices.",
        function=lime,
        parameters=(
            Parameter(
                "samples",
                1024,
                "integer",
                "How many partly hidden copies are tried.",
                low=4,
                high=20_000,
            ),
            SAMPLED_WINDOW,
            Parameter(
                "width",
                0.25,
                "number",
                "How far from the photo a copy may be to count; small values count only copies "
                "with little hidden.",
                low=0.01,
                high=10.0,
            ),
            Parameter(
                "ridge",
                1.0,
                "number",
                "Penalty on large weights; 0 is plain least squares.",
                low=0.0,
                high=1000.0,
            ),
            baseline_parameter("fill", "mean", "What hidden patches are filled with."),
            SCORE,
            SEED,
        ),
    )
)
