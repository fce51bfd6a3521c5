"""What the library must know of a model's family: its blocks, tokens, grid and decision.

Everything is read from the module's own attributes, never from a model's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from explainers.models import token_removal
from explainers.models.errors import ModelError
from explainers.registry import Support
from explainers.sentence import Sentence

Pooling = Literal["token", "distilled", "avg", "all", "map", "other"]
"""Which tokens feed the head: CLS; CLS and DIST; the mean of the patches, or of all tokens;
an attention pool's latent; or something that has no single row."""

NAMES = ("input", "norm1", "middle", "norm2", "heads", "output")
"""Tensors a trace can keep for each block: the residual stream entering it, what attention
reads, the stream between attention and MLP, what the MLP reads, the merged heads before
their projection, and the stream leaving it."""

YES = Support(True)


@dataclass(frozen=True)
class BlockParts:
    """The parts of one block whose parameters name the tensors of a forward pass.

    The norms are None where they do not stand before attention and MLP (post-LN).
    """

    norm1: nn.Module | None
    norm2: nn.Module | None
    projection: nn.Module
    after_merge: nn.Module | None = None


@dataclass(frozen=True)
class Stages:
    """A model cut into pieces that give, one after the other, its very answer.

    embed: pixels (B, 3, h, w) → the stream (B, N, width); blocks: stream → stream; head: the
    last block's stream → the answer (B, classes).
    """

    embed: Callable[[Tensor], Tensor]
    blocks: tuple[Callable[[Tensor], Tensor], ...]
    head: Callable[[Tensor], Tensor]


class Adapter:
    """Reads one model. Subclasses fill in the family's own places."""

    family: str = ""
    blocks: tuple[BlockParts, ...] = ()
    heads: int = 0
    classes: int = 0
    input_size: tuple[int, int] | None = None  # where the module says it in its own way
    prefix: int = 0
    prefix_names: tuple[str, ...] = ()
    patch: tuple[int, int] = (0, 0)
    pooling: Pooling = "other"
    pooling_name: str = ""
    batch_first: bool = True  # features are (B, N, width), not (N, B, width)

    @property
    def depth(self) -> int:
        return len(self.blocks)

    @property
    def calls(self) -> int:
        """How many attention calls one forward pass makes."""
        return self.depth + (self.pooling == "map")

    def grid(self, size: Sequence[int]) -> tuple[int, int]:
        """Rows and columns of patches for a model input of (height, width) pixels."""
        return size[0] // self.patch[0], size[1] // self.patch[1]

    def run(self, module: nn.Module, pixels: Tensor) -> Any:
        """The module's answer to pixels (B, 3, h, w): one tensor (B, classes or features)."""
        return module(pixels)

    def watch(self) -> dict[int, tuple[tuple[str, str], int]]:
        """id of a parameter → ((name of that call's input, of its output), block)."""
        places: dict[int, tuple[tuple[str, str], int]] = {}
        for i, block in enumerate(self.blocks):
            for module, names in (
                (block.norm1, ("input", "norm1")),
                (block.norm2, ("middle", "norm2")),
                (block.projection, ("heads", "")),
            ):
                weight = getattr(module, "weight", None)
                if weight is not None:
                    places[id(weight)] = names, i
        return places

    def after_merge(self, block: int, merged: Tensor) -> Tensor:
        """What the block does to its merged heads before their projection."""
        module = self.blocks[block].after_merge
        return merged if module is None else module(merged)

    def decision_support(self) -> Support:
        """Whether one row of attention is the model's look."""
        if self.pooling != "other":
            return YES
        return Support(
            False,
            Sentence(
                "no_decision_row",
                "This model pools its tokens by {pooling}, so no single row of attention is its "
                "look; the attention of a chosen token can still be seen.",
                pooling=self.pooling_name or "nothing",
            ),
        )

    def decision_weights(self, tokens: int) -> Tensor:
        """Weights (tokens,) of the rows that feed the head, summing to 1; float64.

        An attention pool has no such row among the blocks' tokens: its own call gives it.
        """
        weights = torch.zeros(tokens, dtype=torch.float64)
        first = {"token": slice(0, 1), "distilled": slice(0, 2), "all": slice(None)}
        weights[first.get(self.pooling, slice(self.prefix, None))] = 1
        return weights / weights.sum()

    def stages(self) -> Stages | None:
        """The model cut into pieces, where its pieces are known to be all of it."""
        return None

    def features_support(self) -> Support:
        """Whether the tensors of `NAMES` can be kept: they are seen where LayerNorms are called."""
        norms = [norm for block in self.blocks for norm in (block.norm1, block.norm2)]
        named = all(isinstance(n, nn.LayerNorm) and n.weight is not None for n in norms)
        if norms and named and self.batch_first:
            return YES
        return Support(
            False,
            Sentence(
                "no_features",
                "This model has no LayerNorm before the attention and the MLP of each block (or "
                "puts tokens before photos), so the features between its blocks are not read.",
            ),
        )

    def readout_support(self) -> Support:
        """Whether the head can be asked about a vector that the model did not pool itself."""
        return Support(
            False,
            Sentence(
                "no_readout",
                "Nothing in {family} models says how a block's output is read by the head, so "
                "the blocks cannot be asked one by one.",
                family=self.family,
            ),
        )

    def read_out(self, stream: Tensor) -> Tensor:
        """The head's answer (B, classes) to the mean of a block's tokens (B, N, width).

        An attention pool reads the tokens themselves.
        """
        raise ModelError(self.readout_support().reason)

    def removal_support(self) -> Support:
        """Whether the model can be given fewer patch tokens than its photo has."""
        return token_removal.no_support(self.family)

    def forward_tokens(self, pixels: Tensor, keep: Tensor) -> Tensor:
        """The answer (B, classes) from some patch tokens only; see `token_removal`.

        pixels: (B or 1, 3, h, w); keep: (B, n), the patches kept, in reading order.
        """
        raise ModelError(self.removal_support().reason)

    # -- what the views of figure 7 are drawn from -------------------------------------------

    def _filters(self) -> Tensor | None:
        return None

    def _positions(self) -> Tensor | None:
        return None

    def _positions_grid(self) -> tuple[int, int]:
        raise NotImplementedError

    def filters_support(self) -> Support:
        if self._filters() is not None:
            return YES
        return Support(
            False,
            Sentence(
                "no_filters",
                "This model's patch embedding does not read RGB patches with one linear "
                "projection, so it has no filters to show.",
            ),
        )

    def patch_filters(self) -> Tensor:
        """The patch embedding's filters (D, 3, height, width)."""
        return _demand(self._filters(), self.filters_support())

    def positions_support(self) -> Support:
        if self._positions() is not None:
            return YES
        return Support(
            False,
            Sentence(
                "no_positions",
                "This model learns no position embedding for its patches (it has none, or "
                "positions enter inside attention), so there is no similarity to show.",
            ),
        )

    def position_grid(self) -> tuple[int, int]:
        """Rows and columns of the stored position embeddings."""
        _demand(self._positions(), self.positions_support())
        return self._positions_grid()

    def patch_positions(self) -> Tensor:
        """The learned positions of the patches (rows · columns, D), prefix rows excluded."""
        table = _demand(self._positions(), self.positions_support())
        rows, columns = self._positions_grid()
        return table.detach().reshape(-1, table.shape[-1])[-rows * columns :]


def _demand(tensor: Tensor | None, support: Support) -> Tensor:
    if tensor is None:
        raise ModelError(support.reason)
    return tensor
