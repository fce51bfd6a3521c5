"""Occlusion (Zeiler & Fergus, ECCV 2014) over the model's own patches, through Captum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from captum.attr import FeatureAblation
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.baselines import baseline, baseline_parameter
from explainers.methods.scoring import Objective, Progress, Score, Scorer
from explainers.registry import Method, Parameter, register
from explainers.trace import Trace

_BATCH = 8  # pictures a model call: Cancel is obeyed between calls


def occlusion(
    trace: Trace,
    objective: Objective,
    progress: Progress,
    *,
    window: int,
    fill: str,
    score: Score,
) -> Finding:
    """score(photo) − score(photo with the patch hidden), for each patch (h, w); signed.

    With a window of several patches the grid is hidden square by square, and the patches of
    a square share its value.
    """
    squares = _squares(trace.grid, window)  # (h, w), the number of each patch's square
    total = int(squares.max()) + 2  # one look each, and one at the whole photo
    height, width = trace.model.adapter.patch
    mask = squares.repeat_interleave(height, 0).repeat_interleave(width, 1)
    scorer = Scorer(trace.model, objective, progress, total, score)
    attributions = FeatureAblation(scorer).attribute(
        trace.pixels.detach().clone(),
        baselines=baseline(trace, fill)[None],
        feature_mask=mask[None, None].to(trace.pixels.device),
        perturbations_per_eval=_BATCH,
    )
    patches = attributions[0, 0, ::height, ::width]  # every pixel of a patch has its value
    values = patches if patches.dtype == torch.float64 else patches.float()
    return Finding(values.cpu().numpy())


def _squares(grid: tuple[int, int], window: int) -> Tensor:
    rows, columns = (torch.arange(side) // window for side in grid)
    return rows[:, None] * (int(columns[-1]) + 1) + columns


def _cost(parameters: Mapping[str, Any], patches: int) -> float:
    return -(-patches // parameters["window"] ** 2) + 1


METHOD = register(
    Method(
        name="occlusion",
        title="Occlusion",
        meaning="What happens without it: how far this class's probability falls (or rises) "
        "when a patch is hidden.",
        question="without",
        class_specific=True,
        signed=True,
        needs=("class",),
        cost=_cost,
        paper="Zeiler & Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014",
        bibtex="""@inproceedings{zeiler2014visualizing,
  title={Visualizing and Understanding Convolutional Networks},
  author={Zeiler, Matthew D. and Fergus, Rob},
  booktitle={ECCV}, year={2014}}""",
        limits="One hidden patch is often made good by its neighbours, and the fill is a choice.",
        function=occlusion,
        parameters=(
            Parameter(
                "window", 1, "integer", "Side of the hidden squares, in patches.", low=1, high=8
            ),
            baseline_parameter("fill", "mean", "What a hidden patch is filled with."),
            Parameter(
                "score",
                "probability",
                "choice",
                "Whether the class's probability or its logit is watched.",
                choices=("probability", "logit"),
            ),
        ),
    )
)
