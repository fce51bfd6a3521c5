"""The words for a model's parts: its blocks, its pieces, and the tensors of a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

Pooling = Literal["token", "distilled", "avg", "all", "map", "other"]
"""Which tokens feed the head: CLS; CLS and DIST; the mean of the patches, or of all tokens;
an attention pool's latent; or something that has no single row."""

NAMES = ("input", "norm1", "middle", "norm2", "heads", "output")
"""Tensors a trace can keep for each block: the residual stream entering it, what attention
reads, the stream between attention and MLP, what the MLP reads, the merged heads before
their projection, and the stream leaving it."""


@dataclass(frozen=True)
class BlockParts:
    """The parts of one block whose parameters name the tensors of a forward pass.

    norm1 reads the residual stream that enters the block, norm2 the stream in its middle:
    the norms before attention and MLP or, where none stands there, the linear layers that
    read the stream itself. None where nothing does. projection reads the merged heads;
    after_merge is a norm before it, gate a linear layer whose sigmoid multiplies them.
    """

    norm1: nn.Module | None
    norm2: nn.Module | None
    projection: nn.Module
    after_merge: nn.Module | None = None
    gate: nn.Module | None = None


@dataclass(frozen=True)
class Stages:
    """A model cut into pieces that give, one after the other, its very answer.

    embed: pixels (B, 3, h, w) → the stream (B, N, width); steps: stream → stream, each a block
    or a part of one; head: the last block's stream → the answer (B, classes).
    """

    embed: Callable[[Tensor], Tensor]
    steps: tuple[Callable[[Tensor], Tensor], ...]
    head: Callable[[Tensor], Tensor]


Watched = tuple[tuple[str, ...], tuple[str, ...], int]
"""Names of what a call with a certain parameter reads, names of what comes of it, and a block."""
