"""What a Vision Transformer costs: tokens, operations and memory, from its shape alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from explainers.models.errors import ModelError
from explainers.models.quantised import is_linear, plain_weight
from explainers.models.vision_model import VisionModel
from explainers.scalars import shown, whole_number
from explainers.sentence import Sentence

NUMBER = 4
"""Bytes of one float32 number."""

LARGEST = 100_000
"""The longest side of a photo, in pixels, that is worked out."""


@dataclass(frozen=True)
class Shape:
    """A ViT's measures. tokens are worked out of a photo's size; all else is fixed.

    patch: its side in pixels. width: numbers a token. prefix: tokens besides the patches.
    """

    patch: int
    width: int
    depth: int
    heads: int
    mlp_width: int
    prefix: int = 1
    classes: int = 1000


@dataclass(frozen=True)
class Cost:
    """One forward pass over one photo.

    patches: HW/P², cut off at the border. tokens: with the prefix. Operations count a
    multiplication and its addition as two: ``embedding`` of the patches, ``projections`` (q, k,
    v and the output's), ``attention`` (q·kᵀ and the weighted sum: the part that grows with N²),
    ``mlp`` and ``head``. Bytes, in float32: ``matrices`` one block's N × N attention of all
    heads where it is written out (a fused kernel never holds it); ``stream`` the N × width
    tokens; ``training`` what the blocks keep for the backward pass with a fused kernel;
    ``checkpointed`` the same where only each block's input is kept and one block is run again.
    """

    patches: int
    tokens: int
    embedding: int
    projections: int
    attention: int
    mlp: int
    head: int
    matrices: int
    stream: int
    training: int
    checkpointed: int

    @property
    def operations(self) -> int:
        """All operations of the pass."""
        return self.embedding + self.projections + self.attention + self.mlp + self.head


def patches(height: int, width: int, patch: int) -> int:
    """N = HW/P², whole patches only. ValueError where not one patch fits, or for odd numbers."""
    height, width, patch = (_pixels(side) for side in (height, width, patch))
    if patch > min(height, width):
        raise ValueError(
            Sentence(
                "cost_patch",
                "A patch of {patch} pixels does not fit into {height} × {width}; make the patch "
                "smaller or the photo larger.",
                patch=patch,
                height=height,
                width=width,
            )
        )
    return (height // patch) * (width // patch)


def cost(shape: Shape, height: int, width: int) -> Cost:
    """What one photo of height × width pixels costs a model of this shape."""
    n = patches(height, width, shape.patch)
    tokens, w, m = n + shape.prefix, shape.width, shape.mlp_width
    block = NUMBER * tokens * (8 * w + 2 * m)  # input, norm, q k v, o; middle, norm; two of MLP
    return Cost(
        patches=n,
        tokens=tokens,
        embedding=2 * n * 3 * shape.patch**2 * w,
        projections=shape.depth * 2 * tokens * 4 * w**2,
        attention=shape.depth * 2 * 2 * tokens**2 * w,
        mlp=shape.depth * 2 * 2 * tokens * w * m,
        head=2 * w * shape.classes,
        matrices=NUMBER * shape.heads * tokens**2,
        stream=NUMBER * tokens * w,
        training=shape.depth * block,
        checkpointed=shape.depth * NUMBER * tokens * w + block,
    )


def shape_of(vit: VisionModel) -> Shape:
    """The measures of a model, read off its parts. ModelError for one of several grids."""
    adapter = vit.adapter
    if not (one := adapter.one_grid_support()):
        raise ModelError(one.reason)
    projection: Any = adapter.blocks[0].projection
    width = len(plain_weight(projection))
    return Shape(
        patch=max(adapter.patch),
        width=width,
        depth=adapter.depth,
        heads=adapter.heads,
        mlp_width=_mlp_width(vit.module, projection, width),
        prefix=adapter.prefix,
        classes=vit.classes,
    )


def _mlp_width(module: nn.Module, projection: nn.Module, width: int) -> int:
    """What a block's MLP widens a token to: the first layer beside the attention that does."""
    for block in reversed(list(module.modules())):  # the innermost that holds both comes first
        children = list(block.children())
        beside = [child for child in children if projection not in child.modules()]
        if len(beside) == len(children) or projection in children:
            continue
        layers: list[Any] = [inner for child in beside for inner in child.modules()]
        for layer in layers:
            if is_linear(layer) and layer.in_features == width < layer.out_features:
                return int(layer.out_features)
    return 4 * width  # as in the paper


def with_patch(shape: Shape, patch: int) -> Shape:
    """The same model with patches of another side."""
    return replace(shape, patch=_pixels(patch))


def convolution_reach(layers: int, kernel: int = 3) -> list[int]:
    """Side in pixels that one value sees after 0 … ``layers`` convolutions of stride 1: 1 + 2k
    after k of 3 × 3. A ViT's token sees the whole photo after its first block."""
    return [1 + k * (kernel - 1) for k in range(layers + 1)]


def _pixels(value: object) -> int:
    number = whole_number(value)
    if number is None or not 1 <= number <= LARGEST:
        raise ValueError(
            Sentence(
                "cost_pixels",
                "Height, width and patch are whole numbers of pixels from 1 to {most}; {value} "
                "was given.",
                most=LARGEST,
                value=shown(value),
            )
        )
    return number
