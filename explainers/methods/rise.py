"""RISE (Petsiuk, Das & Saenko, BMVC 2018): the scores of randomly masked photos."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.heatmap import Finding
from explainers.methods.baselines import baseline, baseline_parameter
from explainers.methods.hiding import BATCH, SCORE
from explainers.methods.sampling import SEED, draws, typical, uncertainty
from explainers.methods.scoring import Objective, Progress, Score, Scorer
from explainers.registry import Method, Parameter, register
from explainers.trace import Trace


def rise(
    trace: Trace,
    objective: Objective,
    progress: Progress,
    *,
    masks: int,
    cells: int,
    share: float,
    level: str,
    fill: str,
    score: Score,
    seed: int,
) -> Finding:
    """Σ_i f_i M_i(λ) / (masks · share) for each pixel λ of the input (H, W); signed.

    f_i is the score of photo ⊙ M_i + fill ⊙ (1 − M_i), share the expected value of M. That
    estimates the score to be expected where λ is visible, which lies near the average score f̄
    everywhere; with level "average" f_i − f̄ takes the place of f_i, so that the map says by
    how much λ raises it, without the noise of how often λ happened to be visible. The figure
    ``standard_error`` is the root mean square of the pixels' standard errors.
    """
    photo, nothing = trace.pixels[0].detach(), baseline(trace, fill)
    height, width = photo.shape[1:]
    random = Masks(masks, cells, share, (height, width), seed)
    scorer = Scorer(trace.model, objective, progress, masks, score)
    found = []
    for some in random.indices.split(BATCH):
        mask = random.drawn(some)[:, None].to(photo)  # (B, 1, H, W)
        found.append(scorer(nothing + mask * (photo - nothing)).cpu().double())
    scores = torch.cat(found)
    # Scores that are counted from their average sum to 0, so masks may be counted from theirs:
    # the same sum, of terms whose spread is the map's own error.
    centre, even = (float(scores.mean()), share) if level == "average" else (0.0, 0.0)

    total, squares = (torch.zeros(height, width, dtype=torch.float64) for _ in range(2))
    for some in random.indices.split(BATCH):
        terms = (scores[some, None, None] - centre) * (random.drawn(some) - even) / share
        total += terms.sum(0)
        squares += terms.square().sum(0)
    values = total / masks
    errors = ((squares / masks - values.square()).clamp_min(0) / max(masks - 1, 1)).sqrt()
    error = typical(errors)
    figures = {"standard_error": error, "average_score": float(scores.mean())}
    return Finding(values.numpy(), "pixels", None, figures, (uncertainty(values, error),))


class Masks:
    """Random smooth masks (H, W) in 0..1, drawn again from small grids whenever asked for.

    A grid of cells × cells zeros and ones is spread bilinearly over (cells + 1) cells' space
    and cut out at a random shift of less than one cell, as in the authors' code.
    """

    def __init__(
        self, count: int, cells: int, share: float, size: tuple[int, int], seed: int
    ) -> None:
        generator = draws(seed)
        self.indices = torch.arange(count)
        self._size = size
        self._cell = tuple(-(-side // cells) for side in size)
        self._grids = torch.rand(count, 1, cells, cells, generator=generator) < share
        self._shifts = torch.stack(
            [torch.randint(side, (count,), generator=generator) for side in self._cell], 1
        )
        self._spread = [(cells + 1) * side for side in self._cell]

    def drawn(self, indices: Tensor) -> Tensor:
        """The masks with these numbers: (n, H, W), float64."""
        spread = F.interpolate(
            self._grids[indices].double(), self._spread, mode="bilinear", align_corners=False
        )[:, 0]
        height, width = self._size
        return torch.stack(
            [
                mask[y : y + height, x : x + width]
                for mask, (y, x) in zip(spread, self._shifts[indices].tolist(), strict=True)
            ]
        )


METHOD = register(
    Method(
        name="rise",
        title="RISE",
        meaning="What happens without it: how much higher this class's probability is, on "
        "average, when a place stays visible while random parts of the photo are hidden.",
        question="without",
        class_specific=True,
        signed=True,
        unit="{score}",
        needs=("class",),
        cost=lambda parameters, patches: parameters["masks"],
        paper="Petsiuk, Das & Saenko, RISE: Randomized Input Sampling for Explanation of "
        "Black-box Models, BMVC 2018",
        bibtex="""@inproceedings{petsiuk2018rise,
  title={RISE: Randomized Input Sampling for Explanation of Black-box Models},
  author={Petsiuk, Vitali and Das, Abir and Saenko, Kate},
  booktitle={BMVC}, year={2018}}""",
        limits="It is an average over random masks, with the noise it states; its blobs are as "
        "coarse as the masks' cells, and the fill is a choice.",
        function=rise,
        parameters=(
            Parameter(
                "masks", 500, "integer", "How many random masks are tried.", low=2, high=10_000
            ),
            Parameter("cells", 7, "integer", "Cells along each side of a mask.", low=2, high=64),
            Parameter(
                "share",
                0.5,
                "number",
                "Share of the cells that stays visible.",
                low=0.05,
                high=0.95,
            ),
            Parameter(
                "level",
                "average",
                "choice",
                "What zero means: the average score of all masks, or a score of zero (the paper's "
                "own numbers).",
                choices=("average", "zero"),
            ),
            baseline_parameter("fill", "mean", "What hidden places are filled with."),
            SCORE,
            SEED,
        ),
    )
)
