"""Score-CAM (Wang et al., CVPR Workshops 2020) on the patches of one block."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.heatmap import Finding
from explainers.methods.activations import AT, BLOCK, clipped, features
from explainers.methods.scoring import Objective, Progress, Scorer
from explainers.registry import Method, Parameter, register
from explainers.trace import Trace

_BATCH = 8  # pictures a model call: Cancel is obeyed between calls


def score_cam(
    trace: Trace, objective: Objective, progress: Progress, *, channels: int, block: int, at: str
) -> Finding:
    """ReLU(Σ_d w_d A_d), w = softmax over channels of y(photo ⊙ M_d), for each patch (h, w).

    M_d is channel d of the features, spread bilinearly over the photo and scaled to 0..1 (a
    constant channel hides all). Only the channels that vary most over the patches are tried.
    The photo is the normalised one: what M hides becomes the training set's mean colour.
    """
    progress(0, 1)
    found = features(trace, block, at, counting=True)  # (h·w, width)
    chosen = found.var(0, correction=0).topk(min(channels, found.shape[1])).indices
    maps = found[:, chosen].T.unflatten(1, trace.grid)  # (channels, h, w)
    scorer = Scorer(trace.model, objective, progress, total=len(maps))
    scores = torch.cat([scorer(trace.pixels * _masks(trace, some)) for some in maps.split(_BATCH)])
    weights = scores.to(maps.dtype).softmax(0)
    return clipped(trace, found[:, chosen] @ weights)


def _masks(trace: Trace, maps: Tensor) -> Tensor:
    """Channels (n, h, w) as masks over the model's input (n, 1, H, W), each from 0 to 1."""
    size = tuple(trace.pixels.shape[-2:])
    spread = F.interpolate(maps[:, None], size, mode="bilinear", align_corners=False)
    low, high = spread.amin((2, 3), keepdim=True), spread.amax((2, 3), keepdim=True)
    return torch.where(high > low, (spread - low) / (high - low), 0).to(trace.pixels.dtype)


METHOD = register(
    Method(
        name="score_cam",
        title="Score-CAM",
        meaning="Where the features are that keep this class alive: each feature's own map is laid "
        "over the photo as a mask, and the higher the class's score then, the more it counts.",
        question="counted",
        class_specific=True,
        signed=False,
        needs=("features", "class"),
        cost=lambda parameters, patches: parameters["channels"] + 1,
        paper="Wang et al., Score-CAM: Score-Weighted Visual Explanations for Convolutional "
        "Neural Networks, CVPR Workshops 2020",
        bibtex="""@inproceedings{wang2020score,
  title={Score-CAM: Score-Weighted Visual Explanations for Convolutional Neural Networks},
  author={Wang, Haofan and Wang, Zifan and Du, Mengnan and Yang, Fan and Zhang, Zijian and
    Ding, Sirui and Mardziel, Piotr and Hu, Xia},
  booktitle={CVPR Workshops}, year={2020}}""",
        limits="Negative sums are clipped by definition (ReLU). A Transformer's features have no "
        "meaningful zero, so a mask shows where a feature is high, not where it is active; only "
        "the channels that vary most are tried.",
        function=score_cam,
        parameters=(
            Parameter(
                "channels",
                64,
                "integer",
                "How many features are tried, those first that vary most over the photo.",
                low=1,
                high=2048,
            ),
            BLOCK,
            AT,
        ),
    )
)
