"""How far each head looks, and how widely it spreads: the ViT paper's figure 7, right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from explainers.models.errors import ModelError
from explainers.trace import Trace


@dataclass(frozen=True, eq=False)
class HeadFigures:
    """One number for each block and head, float64 (blocks, heads).

    distance: mean attention distance in pixels of the model's input. entropy: of a query's
    attention, as a share of ln N: 0 looks at one token, 1 at all alike.
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
    one = trace.model.adapter.one_grid_support()
    support = trace.model.supports("attention", row=0) if one else one
    if not support:
        raise ModelError(support.reason)
    found = [_figures_of(trace[i]) for i in range(len(trace))]
    return HeadFigures(*(np.mean([one[k] for one in found], axis=0) for k in range(2)))


def _figures_of(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """(distance, entropy) of one photo."""
    prefix, tokens = trace.prefix, trace.tokens
    between = patch_distances(trace.grid, trace.model.adapter.patch).to(trace.pixels.device)
    distance = torch.zeros(trace.depth, trace.heads, dtype=torch.float64)
    entropy = torch.zeros_like(distance)
    every = torch.arange(tokens, device=trace.pixels.device)
    for block, call in enumerate(trace.calls):
        for rows, (attention,) in call.chunks(every):  # (H, rows, N)
            entropy[block] += torch.special.entr(attention).sum((1, 2)).double().cpu()
            queries = rows[rows >= prefix] - prefix
            on_patches = attention[:, rows >= prefix, prefix:]
            whole = on_patches.sum(2).clamp_min(torch.finfo(attention.dtype).tiny)
            reach = (on_patches * between[queries].to(attention.dtype)).sum(2) / whole
            distance[block] += reach.sum(1).double().cpu()
    scale = float(np.log(tokens)) * tokens
    return (distance / (tokens - prefix)).numpy(), (entropy / scale).numpy()


def patch_distances(grid: tuple[int, int], patch: tuple[int, int]) -> Tensor:
    """Distances in pixels between the centres of all patches: (patches, patches), float64."""
    rows, columns = (torch.arange(side, dtype=torch.float64) for side in grid)
    places = torch.cartesian_prod(rows * patch[0], columns * patch[1]).reshape(-1, 2)
    return torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")
