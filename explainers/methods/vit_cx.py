"""ViT-CX (Xie, Li, Cao & Zhang, IJCAI 2023): a ViT's own features as masks for the photo."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.heatmap import Finding
from explainers.methods.activations import features
from explainers.methods.clusters import complete_linkage
from explainers.methods.hiding import BATCH, SCORE
from explainers.methods.sampling import SEED, draws
from explainers.methods.scoring import Objective, Progress, Score, Scorer
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace

_ROUNDING = 1e-12
"""A channel that varies by less than this share of its size varies by rounding alone."""


def vit_cx(
    trace: Trace,
    objective: Objective,
    progress: Progress,
    *,
    masks: int,
    distance: float,
    noise: float,
    level: str,
    score: Score,
    seed: int,
) -> Finding:
    """Σ_i s_i M_i / Σ_i M_i for each pixel of the input (H, W); signed.

    M_i: the features that the last block's attention reads (norm1; of a model of several
    grids, its last map), each channel spread over the photo and scaled to 0..1; channels nearer
    than ``distance`` (cosine, complete linkage) are summed and scaled again, and further joined
    until at most ``masks`` are left.
    s = p(x⊙M + n(1 − M)) − p(x + n(1 − M)) + p(x) with n normal of standard deviation
    ``noise``: the second term takes off what the noise does by itself. With level "photo" the
    map is counted from p(x), a constant beside which its differences are small; the paper's
    numbers are the map plus the figure ``photo_score``, or level "zero".
    """
    progress(0, 1)
    at = "norm1" if "norm1" in trace.model.adapter.feature_names else "auto"
    found = features(trace, trace.depth - 1, at).cpu().double()  # (h·w, width)
    size = (int(trace.pixels.shape[-2]), int(trace.pixels.shape[-1]))
    maps, at_distance = cluster_maps(found.T.unflatten(1, trace.grid), size, distance, masks)
    photo = trace.pixels[0].detach()
    scorer = Scorer(trace.model, objective, progress, 1 + 2 * len(maps), score)
    whole = scorer(photo[None]).cpu().double()
    generator = draws(seed)
    total, coverage = (torch.zeros(size, dtype=torch.float64) for _ in range(2))
    for first in range(0, len(maps), BATCH // 2):
        mask = upsampled(maps[first : first + BATCH // 2], size)  # (B, H, W)
        drawn = noise * torch.randn((len(mask), *photo.shape), generator=generator)
        drawn = drawn.to(photo) * (1 - mask[:, None]).to(photo)
        kept = mask[:, None].to(photo) * photo
        scores = scorer(torch.cat([kept + drawn, photo + drawn])).cpu().double()
        impact = scores[: len(mask)] - scores[len(mask) :] + (whole if level == "zero" else 0)
        total += (impact[:, None, None] * mask).sum(0)
        coverage += mask.sum(0)
    values = torch.where(coverage > 0, total / coverage.clamp_min(1e-12), 0)
    notes = () if at_distance <= masks else (_joined(at_distance, masks),)
    figures = {"masks": float(len(maps)), "photo_score": float(whole)}
    return Finding(values.numpy(), "pixels", figures=figures, notes=notes)


def cluster_maps(
    features: Tensor, size: tuple[int, int], distance: float, most: int
) -> tuple[Tensor, int]:
    """Features (width, h, w) → masks (n, h, w) before spreading, and how many there were to be.

    Scaling and spreading are done on the grid as far as they can be: both are linear, and a
    spread copy of every channel would not fit where there are many.
    """
    low, high = _range(features, size)
    varied = high - low > _ROUNDING * torch.maximum(high.abs(), low.abs())
    if not varied.any():
        return features[varied], 0
    features, low, high = (t[varied] for t in (features, low, high))
    scaled = (features - low[:, None, None]) / (high - low)[:, None, None]
    # <U a, U b> = <a, UᵀU b> for the linear map U that spreads, along rows and along columns.
    rows, columns = (_overlap(n, side) for n, side in zip(features.shape[1:], size, strict=True))
    products = scaled.flatten(1) @ (rows @ scaled @ columns).flatten(1).T
    lengths = products.diagonal().sqrt()
    apart = (1 - products / lengths / lengths[:, None]).clamp_(min=0)  # below 0 by rounding
    clusters, found = complete_linkage(apart.numpy(), distance, most)
    sums = torch.zeros(int(clusters.max()) + 1, *features.shape[1:], dtype=scaled.dtype)
    sums.index_add_(0, torch.from_numpy(clusters), scaled)
    low, high = (t[:, None, None] for t in _range(sums, size))
    return torch.where(high > low, (sums - low) / (high - low), 0), found


def upsampled(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """(n, h, w) → (n, H, W), bilinear between the cells' centres."""
    return F.interpolate(maps[:, None], size, mode="bilinear", align_corners=False)[:, 0]


def _range(maps: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The lowest and the highest value (n,) of each map (n, h, w) spread to ``size``."""
    ends = [upsampled(some, size).flatten(1).aminmax(dim=1) for some in maps.split(32)]
    return torch.cat([low for low, _ in ends]), torch.cat([high for _, high in ends])


def _overlap(cells: int, side: int) -> Tensor:
    """UᵀU (cells, cells) of the map U that spreads ``cells`` values over ``side`` pixels."""
    one = torch.eye(cells, dtype=torch.float64)[None]
    spread = F.interpolate(one, side, mode="linear", align_corners=False)[0]  # (cells, side)
    return spread @ spread.T


def _joined(found: int, most: int) -> Sentence:
    return Sentence(
        "vit_cx_joined",
        "The model's features make {found} masks at this distance; they were joined further, to "
        "{most}.",
        found=found,
        most=most,
    )


METHOD = register(
    Method(
        name="vit_cx",
        title="ViT-CX",
        meaning="What happens without it: the model's own features, joined to a few masks, show "
        "one part of the photo at a time; a place counts as much as the masks that show it keep "
        "of this class's probability.",
        question="without",
        class_specific=True,
        signed=True,
        needs=("features", "class"),
        cost=lambda parameters, patches: 2 * parameters["masks"] + 2,
        paper="Xie, Li, Cao & Zhang, ViT-CX: Causal Explanation of Vision Transformers, IJCAI 2023",
        bibtex="""@inproceedings{xie2023vitcx,
  title={{ViT-CX}: Causal Explanation of Vision Transformers},
  author={Xie, Weiyan and Li, Xiao-Hui and Cao, Caleb Chen and Zhang, Nevin L.},
  booktitle={IJCAI}, year={2023}}""",
        limits="A Transformer's features have no meaningful zero, so a mask shows where one is "
        "high, not where it is active; hidden places turn into the training photos' average "
        "colour with a little noise.",
        function=vit_cx,
        parameters=(
            Parameter("masks", 64, "integer", "The most masks that are tried.", low=2, high=4096),
            Parameter(
                "distance",
                0.1,
                "number",
                "Features nearer to each other than this (1 − cosine) are joined to one mask.",
                low=0.0,
                high=1.0,
            ),
            Parameter(
                "noise",
                0.1,
                "number",
                "Standard deviation of the noise on hidden places, in the model's input units.",
                low=0.0,
                high=5.0,
            ),
            Parameter(
                "level",
                "photo",
                "choice",
                "What zero means: the score of the photo itself, or a score of zero (the paper's "
                "own numbers).",
                choices=("photo", "zero"),
            ),
            SCORE,
            SEED,
        ),
    )
)
