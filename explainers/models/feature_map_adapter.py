"""timm's classifiers of several grids, branches or channel attention, by their last feature map."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from explainers.attention_call import AttentionCall
from explainers.models.adapters import YES, Adapter, BlockParts, Pooling, Watched
from explainers.models.errors import ModelError
from explainers.models.feature_map import FeatureMap, Grid, find_map, grid_at, last_map, reductions
from explainers.models.grid_block import GridBlock
from explainers.models.grid_blocks import grid_blocks
from explainers.models.own_heads import said_classes, timm_head
from explainers.models.preprocessing import pixel_size
from explainers.models.size_trial import try_pass
from explainers.models.unread_attention import unread
from explainers.registry import Support
from explainers.sentence import Sentence
from explainers.windowed_call import Call, WindowedCall


def has_feature_map(module: nn.Module) -> bool:
    """Whether a module is cut in two as timm's classifiers are: features, then a head."""
    return all(hasattr(module, n) for n in ("forward_features", "forward_head", "num_classes"))


class FeatureMapAdapter(Adapter):
    """Reads the last map of a model: its grid, and its features and their gradients.

    The grid of such a model is that of its last map: the cells from which the head, or a class
    token, draws the answer. Its cells are equal shares of the input.
    """

    def __init__(self, module: Any, size: Grid | None) -> None:
        self._module = module
        self.family = type(module).__name__
        self.input_size = size or built_size(module)
        self._own_size = self.input_size
        self._map: FeatureMap = find_map(module, self._own_size)
        self.classes = self._map.width if said_classes(timm_head(module)) else 0
        self.attends = self._map.attends
        self.prefix = self._map.prefix
        self.prefix_names = ("CLS", "DIST")[: self.prefix]
        rows, columns = self._map.grid
        self.patch = self._own_size[0] // rows, self._own_size[1] // columns
        self.merges = len(set(reductions(module))) > 1
        self._layers = {self._own_size: grid_blocks(module, self._own_size)}
        layers = self._layers[self._own_size]
        self.blocks = tuple(BlockParts(None, None, layer.projection) for layer in layers)
        self.heads = max((layer.heads for layer in layers), default=1)
        self.pooling_name = "mean" if self._map.even else ""
        self.pooling = _pooling(module, self._map)
        self.feature_names = ("output",) if self._map.norm is None else ("norm1", "output")

    @property
    def depth(self) -> int:
        """Blocks whose attention is read; the last map counts as one where there is none."""
        return max(1, len(self.blocks))

    def grid(self, size: Sequence[int]) -> Grid:
        """Of the last map; at another size than the model's own, in proportion."""
        (rows, columns), (height, width) = self._map.grid, self._own_size
        return max(1, round(size[0] * rows / height)), max(1, round(size[1] * columns / width))

    def at_size(self, size: Grid) -> FeatureMapAdapter:
        other = copy.copy(self)
        other._own_size = other.input_size = size
        other._map = replace(self._map, grid=self._grid_seen(size))
        other._layers = {}
        return other

    def _grid_seen(self, size: Grid) -> Grid:
        """The grid of the last map at another size, as one pass shows it."""
        return try_pass(self._module, size, lambda pixels: grid_at(self._module, pixels))

    def run(self, module: Any, pixels: Tensor) -> Any:
        """The model's own two steps one after the other, so that the map between is seen."""
        if not self._map.composed:
            return module(pixels)
        features = module.forward_features(pixels)
        seen = self._map.found and self._map.norm is None
        return module.forward_head(last_map(features) if seen else features)

    def watch(self) -> dict[int, Watched]:
        places = super().watch()
        if self._map.norm is not None:
            # What the norm reads is the stream; what it makes is what a class token looks at.
            places[id(self._map.norm)] = ("output",), ("norm1",), self.depth - 1
        return places

    def as_tokens(self, tensor: Tensor) -> Tensor:
        return self._map.as_tokens(tensor)

    def features_support(self) -> Support:
        if self._map.found:
            return YES
        return Support(
            False,
            Sentence(
                "no_feature_map",
                "No single map of features that the answer is drawn from was found in {family}, "
                "so its features are not read.",
                family=self.family,
            ),
        )

    def block_features_support(self, block: int) -> Support:
        if block == self.depth - 1:
            return self.features_support()
        return Support(
            False,
            Sentence(
                "last_map_only",
                "The features of {family} are read at its last map only, not inside a block; "
                "choose block {last}.",
                family=self.family,
                last=self.depth - 1,
            ),
        )

    def last_features(self, block: int) -> str:
        return self.feature_names[0]

    # -- attention ---------------------------------------------------------------------------

    def layer(self, block: int, size: Sequence[int]) -> GridBlock:
        """One attention layer for an input of (height, width) pixels."""
        pair = size[0], size[1]
        if pair not in self._layers:
            self._layers[pair] = grid_blocks(self._module, pair)
        return self._layers[pair][block]

    def attention_support(self) -> Support:
        return YES if self.blocks else Support(False, unread(self._module))

    def one_grid_support(self) -> Support:
        layers = [self.layer(block, self._own_size) for block in range(len(self.blocks))]
        own = (self._map.grid, self._map.grid)
        if all((layer.rows, layer.columns) == own for layer in layers):
            return self.attention_support()
        return Support(
            False,
            Sentence(
                "blocks_of_several_grids",
                "The blocks of this model look over grids of several sizes, so they cannot stand "
                "side by side; ask for the attention of one block from one of its cells (row).",
            ),
        )

    def block_grids(self, block: int, size: Sequence[int]) -> tuple[Grid, Grid]:
        layer = self.layer(block, size)
        return layer.rows, layer.columns

    def fold(self, index: int, tensor: Tensor) -> Tensor:
        return self.layer(index, self._own_size).fold(tensor)

    def merged(self, block: int, received: Tensor) -> Tensor:
        return self.layer(block, self._own_size).received(received)

    def before_merge(self, block: int, heads: Tensor, q: Tensor) -> Tensor:
        scale = self.layer(block, self._own_size).query_scale
        return heads if scale is None else heads + q / scale

    def after_merge(self, block: int, merged: Tensor, gate: Tensor | None = None) -> Tensor:
        layer = self.layer(block, self._own_size)
        if not layer.cropped:
            return merged
        held = (layer.queries >= 0).to(merged.device, merged.dtype)[..., None]  # (W, n, 1)
        return merged * held.repeat(len(merged) // len(held), 1, 1)

    def on_grid(self, index: int, call: AttentionCall, size: Sequence[int]) -> Call:
        layer = self.layer(index, size)
        slots = layer.queries.shape[1], layer.keys.shape[1]
        seen = call.q.shape[2], call.k.shape[2]
        if layer.prefix or seen != slots or len(call.q) % len(layer.queries):
            return call  # where it should have been windows, the token count gives it away
        (h, w), (rows, columns) = layer.rows, layer.columns
        return WindowedCall(call, layer.queries, layer.keys, h * w, rows * columns)

    # -- the decision ------------------------------------------------------------------------

    def decision_support(self) -> Support:
        return self.chain_support()

    def look_support(self) -> Support:
        """The last layer's rows feed the answer as the cells of the last map do."""
        if not self.blocks:
            return self.attention_support()
        layer = self.layer(self.depth - 1, self._own_size)
        same = (layer.rows, layer.prefix) == (self._map.grid, self.prefix)
        if same and self.pooling != "other":
            return YES
        return self.chain_support() if not self.merges else Support(False, _NO_LOOK)

    def readout_support(self) -> Support:
        return self.chain_support()

    def chain_support(self) -> Support:
        if self.merges:
            return Support(
                False,
                Sentence(
                    "merges_patches",
                    "This model merges patches between its stages, so no row of attention leads "
                    "from its answer back to the patches of the photo.",
                ),
            )
        return Support(False, unread(self._module))


_NO_LOOK = Sentence(
    "merges_look",
    "This model merges patches between its stages, so no row of attention leads from its answer "
    "back to the patches of the photo; the attention of one block can still be seen from one of "
    "its cells (settings block and row).",
)


def _pooling(module: Any, found: FeatureMap) -> Pooling:
    if found.even:
        return "avg"
    if not found.prefix:
        return "other"
    return "token" if getattr(module, "head_dist", None) is None else "distilled"


def built_size(module: Any) -> Grid:
    """The input (height, width) a module was built for, as it or its configuration says."""
    for owner in (getattr(module, "patch_embed", None), module):
        size = getattr(owner, "img_size", None)
        if isinstance(size, (int, tuple, list)) and not isinstance(size, bool):
            return pixel_size(size)
    config = getattr(module, "pretrained_cfg", None) or {}
    if config.get("input_size"):
        return pixel_size(tuple(config["input_size"][-2:]))
    raise ModelError(
        Sentence(
            "encoder_size",
            "{family} does not say how large its input is; give size=(height, width).",
            family=type(module).__name__,
        )
    )
