"""How alike the position embeddings of two patches are: what the model knows of places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from explainers.models.vision_model import VisionModel
from explainers.sentence import Sentence

MOST = 4096
"""The most patches compared with each other: the answer takes patches² · 4 bytes (64 MB)."""


@dataclass(frozen=True, eq=False)
class PositionSimilarity:
    """similarity[i, j, k, l]: cosine in −1..1 between the position embeddings of patch (i, j)
    and patch (k, l); float32 (h, w, h, w), symmetric, 1 where both are the same patch."""

    similarity: np.ndarray

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        h, w = self.similarity.shape[:2]
        return h, w


def position_similarity(
    vit: VisionModel, grid: tuple[int, int] | None = None
) -> PositionSimilarity:
    """Each patch's position embedding compared with every other patch's.

    Prefix tokens are left out. The grid is the model's own, or ``grid`` (rows, columns) after
    the resampling the model does for an input of that size. ViT paper (arXiv 2010.11929),
    figure 7 centre. ValueError with the model's own reason where it learned no positions, for
    a grid without patches, and for more than 4,096 patches.
    """
    support = vit.adapter.positions_support()
    if not support:
        raise ValueError(support.reason)
    own = vit.adapter.position_grid()
    h, w = grid = own if grid is None else (int(grid[0]), int(grid[1]))
    if h < 1 or w < 1 or h * w > MOST:
        raise ValueError(
            Sentence(
                "positions_grid_size",
                "Position embeddings can be compared on 1 to {most} patches; the grid has "
                "{rows} × {columns}. Choose a smaller grid.",
                most=MOST,
                rows=h,
                columns=w,
            )
        )
    positions = vit.adapter.patch_positions().detach().cpu().double()  # (h·w, D)
    if grid != own:
        from timm.layers import resample_abs_pos_embed  # timm takes two seconds to import

        positions = resample_abs_pos_embed(
            positions[None].float(), list(grid), list(own), num_prefix_tokens=0
        )[0].double()
    unit = torch.nn.functional.normalize(positions, dim=-1)
    cosine = (unit @ unit.T).clamp(-1, 1)  # (h·w, h·w)
    cosine.fill_diagonal_(1)  # exactly, also for an embedding of zeros, which has no direction
    return PositionSimilarity(cosine.reshape(h, w, h, w).float().numpy())
