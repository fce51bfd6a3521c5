"""The reference ViT of `explainers.models.vit`."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from explainers.models.adapters import YES, Adapter, BlockParts, Stages
from explainers.models.own_heads import said_classes
from explainers.models.positions import OneDimensional, TwoDimensional
from explainers.models.quantised import plain_weight
from explainers.models.vit import (
    Block,
    ConvolutionEmbedding,
    PatchEmbedding,
    VisionTransformer,
)
from explainers.registry import Support


class ReferenceAdapter(Adapter):
    """Reads our own module, whose parts have the names of the paper."""

    family = "reference ViT"
    prefix = 1
    prefix_names = ("CLS",)
    pooling = "token"
    pooling_name = "token"

    def __init__(self, module: VisionTransformer) -> None:
        self._module = module
        self.blocks = tuple(
            BlockParts(block.norm1, block.norm2, block.attention.projection)
            for block in module.layers()
        )
        self.heads = module.layers()[0].attention.heads
        self.head = module.head
        self.classes = said_classes(self.head)
        self.patch = (module.cell, module.cell)
        self.input_size = module.image_size

    def stages(self) -> Stages:
        module = self._module

        def through(block: Block) -> Callable[[Tensor], Tensor]:
            return lambda stream: block(stream, module.positions.bias())

        def head(stream: Tensor) -> Tensor:
            answer: Tensor = module.head(module.norm(stream)[:, 0])
            return answer

        return Stages(module.tokens, tuple(map(through, module.layers())), head)

    def readout_support(self) -> Support:
        return YES

    def read_out(self, stream: Tensor) -> Tensor:
        answer: Tensor = self._module.head(self._module.norm(stream.mean(1)))
        return answer

    def _filters(self) -> Tensor | None:
        embedding = self._module.embedding
        if isinstance(embedding, ConvolutionEmbedding):
            weight = embedding.projection.weight
        elif isinstance(embedding, PatchEmbedding):
            p = embedding.patch_size
            weight = plain_weight(embedding.projection).unflatten(1, (p, p, -1))
            weight = weight.permute(0, 3, 1, 2)
        else:
            return None
        return weight.detach() if weight.shape[1] == 3 else None

    def _positions(self) -> Tensor | None:
        positions = self._module.positions
        if isinstance(positions, OneDimensional):
            return positions.table
        return positions.table() if isinstance(positions, TwoDimensional) else None

    def _positions_grid(self) -> tuple[int, int]:
        return self._module.grid_size
