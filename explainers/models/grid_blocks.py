"""The attention layers of models with several grids: which cells each one looks from and at.

One reader a family, chosen by the class of the module; each follows its own forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from explainers.models.feature_map import Grid, reductions
from explainers.models.grid_block import GridBlock, Reshape, as_it_is
from explainers.models.pooled_blocks import mvit, pooled_keys, pvt
from explainers.models.windows import lattices, unrolled, whole, windows


def grid_blocks(module: nn.Module, size: Grid) -> tuple[GridBlock, ...]:
    """The layers of a module in the order of its pass, for an input of (height, width) pixels.

    None of them where the family's attention is not read.
    """
    for kind in type(module).__mro__:
        if kind.__module__.startswith("timm.") and kind.__name__ in _READERS:
            return tuple(_READERS[kind.__name__](module, size))
    return ()


def _same(
    projection: nn.Module, heads: int, grid: Grid, cells: Tensor, received: Reshape
) -> GridBlock:
    return GridBlock(projection, heads, grid, grid, cells, cells, received=received)


def _last_two(tensor: Tensor) -> Tensor:
    """(B·W, …, C) → (B·W, n, C)."""
    return tensor.flatten(1, -2)


def _channels_second(tensor: Tensor) -> Tensor:
    """(B·W, C, h, w) → (B·W, n, C)."""
    return tensor.flatten(2).transpose(1, 2)


def _swin(module: Any, size: Grid) -> Iterator[GridBlock]:
    """Liu et al., Swin, ICCV 2021, and Swin V2, CVPR 2022: shifted windows."""
    patch = module.patch_embed.patch_size
    grid = size[0] // patch[0], size[1] // patch[1]
    for stage in module.layers if hasattr(module, "layers") else module.stages:
        if not isinstance(stage.downsample, nn.Identity):
            grid = (grid[0] + 1) // 2, (grid[1] + 1) // 2
        for block in stage.blocks:
            cells = windows(grid, tuple(block.window_size), tuple(block.shift_size))
            yield _same(block.attn.proj, block.attn.num_heads, grid, cells, as_it_is)


def _maxvit(module: Any, size: Grid) -> Iterator[GridBlock]:
    """Tu et al., MaxViT, ECCV 2022 (windows, then lattices); Dai et al., CoAtNet, 2021 (whole)."""
    for stage, step in zip(module.stages, reductions(module)[1:], strict=True):
        grid = math.ceil(size[0] / step), math.ceil(size[1] / step)
        for part in stage.modules():
            name = type(part).__name__
            if name == "TransformerBlock2d":
                layers = [(part.attn, whole(grid))]
            elif name in ("PartitionAttentionCl", "PartitionAttention2d"):
                cut = windows if part.partition_block else lattices
                layers = [(part.attn, cut(grid, tuple(part.partition_size)))]
            elif name == "ParallelPartitionAttention":
                window = tuple(part.partition_size)
                layers = [
                    (part.attn_block, windows(grid, window)),
                    (part.attn_grid, lattices(grid, window)),
                ]
            else:
                continue
            for layer, cells in layers:
                planes = isinstance(layer.proj, nn.Conv2d)
                received = _channels_second if planes else _last_two
                yield _same(layer.proj, layer.num_heads, grid, cells, received)


def _twins(module: Any, size: Grid) -> Iterator[GridBlock]:
    """Chu et al., Twins, NeurIPS 2021: windows, and keys on a coarser grid."""
    grid = size
    for embed, blocks in zip(module.patch_embeds, module.blocks, strict=True):
        grid = grid[0] // embed.patch_size[0], grid[1] // embed.patch_size[1]
        for block in blocks:
            layer = block.attn
            if hasattr(layer, "ws"):
                cells = windows(grid, (layer.ws, layer.ws))
                yield GridBlock(
                    layer.proj,
                    layer.num_heads,
                    *(grid, grid),
                    *(cells, cells),
                    fold=lambda tensor: tensor.flatten(0, 1),
                    received=_into_windows(cells),
                    cropped=True,
                )
            else:
                yield pooled_keys(layer, grid)


def _into_windows(cells: Tensor) -> Reshape:
    """(B, h·w, C) → (B·W, n, C); slots of padding are zero."""

    def received(tokens: Tensor) -> Tensor:
        places = cells.to(tokens.device)
        held = tokens[:, places.clamp_min(0)] * (places >= 0)[..., None]
        return held.flatten(0, 1)

    return received


def _hiera(module: Any, size: Grid) -> Iterator[GridBlock]:
    """Ryali et al., Hiera, ICML 2023: attention in mask units, then over everything."""
    grid = module.unroll.size[0], module.unroll.size[1]
    strides = [tuple(stride) for stride in module.unroll.schedule]
    for block in module.blocks:
        layer = block.attn
        pools = layer.q_stride > 1
        coarse, left = grid, strides
        if pools:
            coarse = grid[0] // strides[0][0], grid[1] // strides[0][1]
            left = strides[1:]
        keys, queries = unrolled(grid, strides), unrolled(coarse, left)
        if layer.use_mask_unit_attn:
            units = keys.shape[1] // (layer.q_stride * layer.window_size)
            keys, queries = (cells.reshape(-1, units).T for cells in (keys, queries))
            yield GridBlock(
                layer.proj,
                layer.heads,
                *(coarse, grid),
                *(queries, keys),
                fold=lambda tensor: tensor.transpose(1, 2).flatten(0, 1),
                received=_unit_by_unit(units),
            )
        else:
            yield GridBlock(layer.proj, layer.heads, coarse, grid, queries, keys)
        grid, strides = coarse, left


def _unit_by_unit(units: int) -> Reshape:
    """(B, n·W, C), the units side by side → (B·W, n, C)."""

    def received(tokens: Tensor) -> Tensor:
        return tokens.unflatten(1, (-1, units)).transpose(1, 2).flatten(0, 1)

    return received


def _pit(module: Any, size: Grid) -> Iterator[GridBlock]:
    """Heo et al., PiT, ICCV 2021: a class token and one grid a stage, smaller in each."""
    conv = module.patch_embed.conv
    sides = zip(size, conv.padding, conv.kernel_size, conv.stride, strict=True)
    rows, columns = ((side + 2 * pad - wide) // step + 1 for side, pad, wide, step in sides)
    grid = rows, columns
    for stage in module.transformers:
        if stage.pool is not None:
            grid = (grid[0] + 1) // 2, (grid[1] + 1) // 2
        for block in stage.blocks:
            cells = whole(grid)
            yield GridBlock(
                block.attn.proj,
                block.attn.num_heads,
                *(grid, grid),
                *(cells, cells),
                prefix=module.num_tokens,
            )


_READERS: dict[str, Callable[[Any, Grid], Iterator[GridBlock]]] = {
    "SwinTransformer": _swin,
    "SwinTransformerV2": _swin,
    "SwinTransformerV2Cr": _swin,
    "MaxxVit": _maxvit,
    "Twins": _twins,
    "PyramidVisionTransformerV2": pvt,
    "MultiScaleVit": mvit,
    "Hiera": _hiera,
    "PoolingVisionTransformer": _pit,
}
