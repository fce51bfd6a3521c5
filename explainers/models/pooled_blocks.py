"""Attention layers whose queries or keys stand on a coarser grid: PVT, Twins and MViT."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from explainers.models.feature_map import Grid, reductions
from explainers.models.grid_block import GridBlock
from explainers.models.windows import whole


def pooled_keys(layer: Any, grid: Grid) -> GridBlock:
    """A layer in which every cell looks at a coarser grid (Wang et al., PVT, ICCV 2021)."""
    merge = getattr(layer, "sr", None)  # a convolution that reads cells without overlap
    down, across = (1, 1) if merge is None else merge.stride
    coarse = grid[0] // down, grid[1] // across
    pool = getattr(layer, "pool", None)
    if pool is not None:
        coarse = int(pool.output_size), int(pool.output_size)
    return GridBlock(layer.proj, layer.num_heads, grid, coarse, whole(grid), whole(coarse))


def pvt(module: Any, size: Grid) -> Iterator[GridBlock]:
    """Wang et al., PVT v2, 2022."""
    for stage, step in zip(module.stages, reductions(module), strict=True):
        grid = math.ceil(size[0] / step), math.ceil(size[1] / step)
        for block in stage.blocks:
            yield pooled_keys(block.attn, grid)


def mvit(module: Any, size: Grid) -> Iterator[GridBlock]:
    """Li et al., MViTv2, CVPR 2022: queries and keys are pooled, and the queries are added."""
    grid = strided(size, module.patch_embed.proj)
    for block in (block for stage in module.stages for block in stage.blocks):
        layer = block.attn
        if not hasattr(layer, "qkv"):  # pooled before the projection, which no model does
            return
        queries, keys = strided(grid, layer.pool_q), strided(grid, layer.pool_k)
        yield GridBlock(
            layer.proj,
            layer.num_heads,
            *(queries, keys),
            *(whole(queries), whole(keys)),
            prefix=int(layer.has_cls_token),
            query_scale=layer.scale if layer.residual_pooling else None,
        )
        grid = queries


def strided(grid: Grid, pool: Any) -> Grid:
    """The grid that a convolution or pooling makes of one; None leaves it as it is."""
    if pool is None:
        return grid
    rows, columns = (
        (side + 2 * pad - wide) // step + 1
        for side, pad, wide, step in zip(
            grid, *map(_pair, (pool.padding, pool.kernel_size, pool.stride)), strict=True
        )
    )
    return rows, columns


def _pair(value: Any) -> Grid:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))
