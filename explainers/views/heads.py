"""How far each head looks, and how widely it spreads: the ViT paper's figure 7, right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from explainers.sentence import Sentence
from explainers.trace import Trace

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class HeadFigures:
    """One number for each block and head, float64 (blocks, heads).

    distance: mean attention distance in pixels of the model's input. entropy: of a query's
    attention, as a share of ln N: 0 looks at one token, 1 at all alike. NaN in the place of
    heads that a block does not have, in models whose blocks have more or fewer of them.
    """

    distance: np.ndarray
    entropy: np.ndarray


def head_figures(trace: Trace) -> HeadFigures:
    """Mean attention distance and entropy of every head, averaged over the trace's photos.

    Distance: the mean over patch queries of Σ_j A[i,j]·‖pos_i − pos_j‖ between patch centres,
    rows renormalised once the prefix tokens are left out. Entropy: −Σ_j A[i,j] ln A[i,j] / ln N
    over all tokens, the mean over all queries. Dosovitskiy et al., ICLR 2021, figure 7 right.
    Raises ModelError where the model's attention cannot be read.
    """
    _demand_attention(trace.model)
    return _mean([_figures_of(trace[i]) for i in range(len(trace))])


def head_figures_of(
    vit: VisionModel, photos: Sequence[Photo], progress: Progress | None = None
) -> HeadFigures:
    """The same over a set of photos, one traced at a time, so that any number fits in memory.

    progress(done, total): called after each photo; cancels by raising. ValueError without
    photos, ModelError as for `head_figures`.
    """
    _demand_attention(vit)
    if not photos:
        raise ValueError(
            Sentence(
                "heads_no_photos",
                "How far heads look is measured on photos, and none was given; give at least one.",
            )
        )
    found = []
    for done, photo in enumerate(photos, 1):
        found.append(_figures_of(vit.trace(photo)))
        if progress is not None:
            progress(done, len(photos))
    return _mean(found)


def _demand_attention(vit: VisionModel) -> None:
    support = vit.supports("attention", row=0)
    if not support:
        raise ModelError(support.reason)


def _mean(found: Sequence[tuple[np.ndarray, np.ndarray]]) -> HeadFigures:
    return HeadFigures(*(np.mean([one[k] for one in found], axis=0) for k in range(2)))


def _figures_of(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """(distance, entropy) of one photo."""
    most = max(call.heads for call in trace.calls)
    distance, entropy = (np.full((trace.depth, most), np.nan) for _ in range(2))
    for block, call in enumerate(trace.calls):
        reach, spread = _block_figures(trace, block)
        distance[block, : call.heads], entropy[block, : call.heads] = reach, spread
    return distance, entropy


def _block_figures(trace: Trace, block: int) -> tuple[np.ndarray, np.ndarray]:
    """(distance, entropy) of a block's heads, each (heads,)."""
    call, device = trace.calls[block], trace.pixels.device
    between = _between(trace, block)  # (queries' patches, keys' patches), on the CPU
    first_query = call.rows_count - between.shape[0]
    first_key = call.columns_count - between.shape[1]
    distance = torch.zeros(call.heads, dtype=torch.float64)
    entropy = torch.zeros_like(distance)
    for rows, (attention,) in call.chunks(torch.arange(call.rows_count, device=device)):
        spread = torch.special.entr(attention).sum((1, 2))  # of (heads, rows, N)
        entropy += spread.cpu().double()  # there is no float64 on some accelerators
        patches = rows >= first_query
        on_patches = attention[:, patches, first_key:]
        whole = on_patches.sum(2).clamp_min(torch.finfo(attention.dtype).tiny)
        places = between[rows[patches].cpu() - first_query].to(attention.dtype).to(device)
        reach = (on_patches * places).sum(2) / whole
        distance += reach.sum(1).cpu().double()
    scale = float(np.log(call.columns_count)) * call.rows_count
    return (distance / between.shape[0]).numpy(), (entropy / scale).numpy()


def _between(trace: Trace, block: int) -> Tensor:
    """Distances in pixels between the centres of a block's queries and keys, float64.

    Where a block has a grid of its own, its cells are larger or smaller than a patch.
    """
    own, patch = trace.grid, trace.model.adapter.patch
    queries, keys = (
        centres(grid, (patch[0] * own[0] / grid[0], patch[1] * own[1] / grid[1]))
        for grid in trace.block_grids(block)
    )
    return torch.cdist(queries, keys, compute_mode="donot_use_mm_for_euclid_dist")


def patch_distances(grid: tuple[int, int], patch: tuple[int, int]) -> Tensor:
    """Distances in pixels between the centres of all patches: (patches, patches), float64."""
    places = centres(grid, patch)
    return torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")


def centres(grid: tuple[int, int], cell: tuple[float, float]) -> Tensor:
    """Where the middle of each cell is, in pixels (down, across): (cells, 2), float64."""
    rows, columns = (torch.arange(side, dtype=torch.float64) + 0.5 for side in grid)
    return torch.cartesian_prod(rows * cell[0], columns * cell[1]).reshape(-1, 2)
