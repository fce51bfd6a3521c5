"""Swin of torchvision and of transformers: shifted windows, read where timm's Swin is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from explainers.models.adapters import BlockParts
from explainers.models.errors import ModelError
from explainers.models.feature_map import FeatureMap, Grid
from explainers.models.feature_map_adapter import FeatureMapAdapter
from explainers.models.grid_block import GridBlock
from explainers.models.own_heads import said_classes
from explainers.models.size_trial import try_pass
from explainers.models.windows import windows
from explainers.sentence import Sentence


@dataclass(frozen=True)
class SwinParts:
    """Where a library keeps the parts. layers: the size of an input → its attention layers.

    norm: the one that reads the last map; patch: pixels a cell of the first grid; merges: how
    many times patches are merged on the way to the last map.
    """

    family: str
    layers: Callable[[Grid], Iterator[GridBlock]]
    norm: nn.Module
    patch: Grid
    merges: int
    head: nn.Module | None
    size: Grid


class SwinAdapter(FeatureMapAdapter):
    """Reads a Swin by its parts; its last map is what the last norm reads."""

    merges = True

    def __init__(self, module: nn.Module, parts: SwinParts, size: Grid | None) -> None:
        self._module, self._parts = module, parts
        self.family, self.head = parts.family, parts.head
        self.classes = said_classes(self.head)
        self.input_size = size or parts.size
        self._own_size = self.input_size
        grid = self._last_grid(self._own_size)
        weight: Any = parts.norm.weight
        self._map = FeatureMap(grid, 0, "NHWC", True, weight, True, False, True, self.classes)
        self.attends = True
        self.patch = self._own_size[0] // grid[0], self._own_size[1] // grid[1]
        self._layers = {}
        layers = self._read(self._own_size)
        self.blocks = tuple(BlockParts(None, None, layer.projection) for layer in layers)
        self.heads = max(layer.heads for layer in layers)
        self.pooling, self.pooling_name = "avg", "mean"
        self.feature_names = ("output", "norm1")

    def _last_grid(self, size: Grid) -> Grid:
        grid = size[0] // self._parts.patch[0], size[1] // self._parts.patch[1]
        for _ in range(self._parts.merges):
            grid = _merged(grid)
        return grid

    def grid(self, size: Any) -> Grid:
        return self._last_grid((size[0], size[1]))

    def _grid_seen(self, size: Grid) -> Grid:
        self._read(size)  # refuses what is smaller than a window
        try_pass(self._module, size, lambda pixels: self.run(self._module, pixels))
        return self._last_grid(size)

    def run(self, module: Any, pixels: Tensor) -> Any:
        """The answer (B, classes); of a model of transformers, its logits or pooled features."""
        found = module(pixels)
        if isinstance(found, Tensor):
            return found
        logits = found.get("logits")
        return found["pooler_output"] if logits is None else logits

    def as_tokens(self, tensor: Tensor) -> Tensor:
        return tensor.flatten(1, 2) if tensor.dim() == 4 else tensor

    def layer(self, block: int, size: Any) -> GridBlock:
        return self._read((size[0], size[1]))[block]

    def _read(self, size: Grid) -> tuple[GridBlock, ...]:
        if size not in self._layers:
            self._layers[size] = tuple(self._parts.layers(size))
        return self._layers[size]


def torchvision_swin(module: Any) -> SwinParts:
    """The parts of torchvision's `SwinTransformer`."""
    stages: list[Any] = [part for part in module.features if isinstance(part, nn.Sequential)]
    convolution = stages[0][0]
    patch = int(convolution.stride[0]), int(convolution.stride[1])

    def layers(size: Grid) -> Iterator[GridBlock]:
        grid = size[0] // patch[0], size[1] // patch[1]
        parts: list[Any] = list(module.features)[1:]
        for part in parts:
            if not isinstance(part, nn.Sequential):
                grid = _merged(grid)
                continue
            blocks: Any = part
            for block in blocks:
                yield _torchvision_layer(block.attn, grid)

    side = 64 * patch[0] if hasattr(stages[1][0].attn, "logit_scale") else 56 * patch[0]
    return SwinParts(
        family=f"torchvision {type(module).__name__}",
        layers=layers,
        norm=module.norm,
        patch=patch,
        merges=len(module.features) - 1 - (len(stages) - 1),
        head=module.head,
        size=(side, side),
    )


def _torchvision_layer(attention: Any, grid: Grid) -> GridBlock:
    """One layer; it shifts along a side only where that has more than one window."""
    (high, wide), (down, across) = attention.window_size, attention.shift_size
    shift = (down if grid[0] > high else 0), (across if grid[1] > wide else 0)
    cells = windows(grid, (high, wide), shift, pad_first=True)
    return _layer(attention.proj, attention.num_heads, grid, cells)


def transformers_swin(module: Any) -> SwinParts:
    """The parts of transformers' `SwinModel` and `SwinForImageClassification`."""
    core = module.swin if hasattr(module, "swin") else module
    config = core.config
    side = config.image_size
    size = (side, side) if isinstance(side, int) else (int(side[0]), int(side[1]))

    def layers(size: Grid) -> Iterator[GridBlock]:
        grid = size[0] // config.patch_size, size[1] // config.patch_size
        for stage in core.encoder.layers:
            for i, block in enumerate(stage.blocks):
                wide, move = config.window_size, config.window_size // 2 * (i % 2)
                if min(grid) < wide:  # the layer would add biases of another window
                    raise _too_small(module, size, grid, wide)
                move = 0 if min(grid) == wide else move
                cells = windows(grid, (wide, wide), (move, move), pad_first=True)
                attention = block.attention
                yield _layer(attention.o_proj, attention.num_attention_heads, grid, cells)
            if stage.downsample is not None:
                grid = _merged(grid)

    classifies = "ForImageClassification" in type(module).__name__
    return SwinParts(
        family=f"transformers {type(module).__name__}",
        layers=layers,
        norm=core.layernorm,
        patch=(config.patch_size, config.patch_size),
        merges=sum(stage.downsample is not None for stage in core.encoder.layers),
        head=module.classifier if classifies else None,
        size=size,
    )


def _too_small(module: nn.Module, size: Grid, grid: Grid, window: int) -> ModelError:
    return ModelError(
        Sentence(
            "swin_window",
            "{family} has windows of {window}×{window} cells, and at {height}×{width} pixels one "
            "of its grids has {rows}×{columns}; choose a larger size.",
            family=type(module).__name__,
            window=window,
            height=size[0],
            width=size[1],
            rows=grid[0],
            columns=grid[1],
        )
    )


def _layer(projection: nn.Module, heads: int, grid: Grid, cells: Tensor) -> GridBlock:
    return GridBlock(projection, heads, grid, grid, cells, cells)


def _merged(grid: Grid) -> Grid:
    return (grid[0] + 1) // 2, (grid[1] + 1) // 2
