"""Occlusion (Zeiler & Fergus, ECCV 2014) over the model's own patches, through Captum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from captum.attr import Occlusion

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

    With a window of several patches, each patch's value is the mean over the windows that
    cover it.
    """
    height, width = trace.model.adapter.patch
    window = min(window, *trace.grid)
    total = _windows(trace.grid, window) + 1
    scorer = Scorer(trace.model, objective, progress, total, score)
    with torch.inference_mode(False), torch.no_grad():
        attributions = Occlusion(scorer).attribute(
            trace.pixels.detach().clone(),
            sliding_window_shapes=(3, window * height, window * width),
            strides=(3, height, width),
            baselines=baseline(trace, fill)[None],
            perturbations_per_eval=_BATCH,
        )
    rows, columns = trace.grid  # every pixel of a patch has the patch's value
    patches = attributions[0, 0, : rows * height : height, : columns * width : width]
    values = patches if patches.dtype == torch.float64 else patches.float()
    return Finding(values.cpu().numpy())


def _windows(grid: tuple[int, int], window: int) -> int:
    return (grid[0] - window + 1) * (grid[1] - window + 1)


def _cost(parameters: Mapping[str, Any], patches: int) -> float:
    side = max(1, round(patches**0.5) - parameters["window"] + 1)
    return patches if parameters["window"] == 1 else side * side


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
                "window", 1, "integer", "Side of the hidden square, in patches.", low=1, high=8
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
