"""What the library must know of a model's family: its blocks, tokens, grid and decision.

Everything is read from the module's own attributes, never from a model's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from explainers.attention_call import AttentionCall
from explainers.models import token_removal
from explainers.models.embedding_views import EmbeddingViews
from explainers.models.errors import ModelError
from explainers.models.parts import NAMES, BlockParts, Pooling, Stages, Watched
from explainers.models.probe import Probe
from explainers.models.quantised import is_linear, plain_weight, used_weight
from explainers.models.size_trial import try_pass
from explainers.registry import YES, Support
from explainers.sentence import Sentence
from explainers.windowed_call import Call

Grid = tuple[int, int]

__all__ = ["NAMES", "YES", "Adapter", "BlockParts", "Pooling", "Stages", "Watched"]


def no_graph(family: str) -> Support:
    """For a model whose answer does not hang together with its input, as torch sees it."""
    return Support(
        False,
        Sentence(
            "no_graph",
            "The forward pass of {family} leaves gradients out (torch.no_grad, or a detach), so "
            "nothing can be asked of them; take that out of it.",
            family=family,
        ),
    )


class Adapter(EmbeddingViews):
    """Reads one model. Subclasses fill in the family's own places.

    Each kind of thing that can be read has a `…_support`, so that a family without one of
    them still has the others.
    """

    family: str = ""
    _module: Any
    blocks: tuple[BlockParts, ...] = ()
    heads: int = 0
    classes: int = 0
    input_size: tuple[int, int] | None = None  # where the module says it in its own way
    prefix: int = 0
    prefix_names: tuple[str, ...] = ()
    patch: tuple[int, int] = (0, 0)
    pooling: Pooling = "other"
    pooling_name: str = ""
    any_size: bool = False  # the module itself takes inputs of any whole number of patches
    head: nn.Module | None = None  # makes the answer; None where ``classes`` was seen in one
    pool_projection: nn.Module | None = None  # the layer that reads an attention pool's heads
    batch_first: bool = True  # features are (B, N, width), not (N, B, width)
    feature_names: tuple[str, ...] = ("norm1", "output")  # of a block, with their gradients

    @property
    def depth(self) -> int:
        return len(self.blocks)

    @property
    def calls(self) -> int:
        """How many attention calls one forward pass makes."""
        return self.depth + (self.pooling == "map")

    def grid(self, size: Sequence[int]) -> Grid:
        """Rows and columns of patches for a model input of (height, width) pixels."""
        return size[0] // self.patch[0], size[1] // self.patch[1]

    def at_size(self, size: Grid) -> Adapter:
        """What reads the same module at inputs of (height, width) pixels, after one pass of it.

        ModelError where the tokens are not those of the grid; what the module itself raises at
        a size that it does not take is raised.
        """

        def tokens(pixels: Tensor) -> set[int]:
            with Probe() as seen:
                self.run(self._module, pixels)
            return seen.tokens

        found = try_pass(self._module, size, tokens)
        rows, columns = self.grid(size)
        expected = self.prefix + rows * columns
        if self.attention_support() and expected not in found:
            raise ModelError(
                Sentence(
                    "size_tokens",
                    "{family} turns {height}×{width} pixels into other tokens than a "
                    "{rows}×{columns} grid of patches has, so it cannot be read at that size; "
                    "look at the photo at the model's own size, or through windows of it.",
                    family=self.family,
                    height=size[0],
                    width=size[1],
                    rows=rows,
                    columns=columns,
                )
            )
        return self

    def run(self, module: nn.Module, pixels: Tensor) -> Any:
        """The module's answer to pixels (B, 3, h, w): one tensor (B, classes or features)."""
        return module(pixels)

    # -- the tensors of a pass ---------------------------------------------------------------

    def watch(self) -> dict[int, Watched]:
        """id of a parameter → what the call that uses it reads and makes."""
        places: dict[int, Watched] = {}
        for i, block in enumerate(self.blocks):
            for module, before, after in (
                (block.norm1, "input", "norm1"),
                (block.norm2, "middle", "norm2"),
                (block.projection, "heads", ""),
                (block.gate, "gate", ""),
            ):
                weight = used_weight(module)
                if weight is None:
                    continue
                if is_linear(module) and after:  # it reads the stream as it is
                    places[id(weight)] = (before, after), (), i
                else:
                    places[id(weight)] = (before,), (after,), i
        pool = used_weight(self.pool_projection)
        return places if pool is None else places | {id(pool): (("pooled",), (), self.depth)}

    @property
    def checks(self) -> int:
        """How many attention calls are compared with what the model made of them."""
        return self.depth + (used_weight(self.pool_projection) is not None)

    @property
    def last_sum(self) -> str:
        """The tensor of the last block that its last residual sum starts from."""
        return "input" if self.blocks and self.blocks[-1].norm2 is None else "middle"

    def as_tokens(self, tensor: Tensor) -> Tensor:
        """A tensor of the residual stream, maybe (B, h, w, width), as (B, N, width)."""
        return tensor.flatten(1, 2) if tensor.dim() == 4 else tensor

    def features_support(self) -> Support:
        """Whether the stream and what attention reads of it are seen: by the norms' weights."""
        named = [getattr(block.norm1, "weight", None) is not None for block in self.blocks]
        if named and all(named) and self.batch_first:
            return YES
        return Support(
            False,
            Sentence(
                "no_features",
                "This model has no norm with weights before the attention of each block (or "
                "puts tokens before photos), so the features between its blocks are not read.",
            ),
        )

    def block_features_support(self, block: int) -> Support:
        """Whether the features of one block can be read."""
        return self.features_support()

    def last_features(self, block: int) -> str:
        """The latest tensor of a block (see `NAMES`) whose patches still count for the answer.

        After the last attention only the tokens that the head reads count.
        """
        ends = block == self.depth - 1 and self.pooling in ("token", "distilled")
        return "norm1" if ends else "output"

    # -- attention -----------------------------------------------------------------------------

    def block_grids(self, block: int, size: Sequence[int]) -> tuple[Grid, Grid]:
        """The grids of a block's rows and of the cells they are over: (of queries, of keys)."""
        return self.grid(size), self.grid(size)

    def look_support(self) -> Support:
        """Whether one row of the last block's attention is its look for the answer."""
        return self.decision_support()

    def attention_support(self) -> Support:
        """Whether each block makes one attention call whose rows are distributions."""
        return YES

    def chain_support(self) -> Support:
        """Whether every block reads the same tokens, so that attention can be followed through."""
        return YES

    def one_grid_support(self) -> Support:
        """Whether all blocks look over the model's one grid, so that they stand side by side."""
        return YES

    def merge_support(self) -> Support:
        """Whether the heads' outputs go through one linear layer and nothing else."""
        plain = all(
            isinstance(block.after_merge, (nn.Identity, type(None))) and block.gate is None
            for block in self.blocks
        )
        if plain:
            return YES
        return Support(
            False,
            Sentence(
                "no_linear_merge",
                "This model puts a norm, a gate or limits between its heads and their projection, "
                "so what one head hands on of one patch cannot be told apart.",
            ),
        )

    def fold(self, index: int, tensor: Tensor) -> Tensor:
        """q, k, v or output of the index-th call as (B·W, H, N, D), windows being a batch."""
        return tensor

    def on_grid(self, index: int, call: AttentionCall, size: Sequence[int]) -> Call:
        """The index-th call of a pass over (height, width) pixels, its tokens in reading order.

        Families whose calls are about windows, or hold photos and windows in one dimension,
        say here where the tokens are.
        """
        return call

    def in_order(self, index: int, tensor: Tensor, size: Sequence[int]) -> Tensor:
        """v or the output of the index-th call, (B, H, N, E) with its tokens in reading order."""
        return tensor

    def merged(self, block: int, received: Tensor) -> Tensor:
        """The merged heads (B, N, H·E) in what the block's projection was given."""
        return received

    def before_merge(self, block: int, heads: Tensor, q: Tensor) -> Tensor:
        """What the block makes of its heads (B, H, N, E) and queries before it merges them."""
        return heads

    def after_merge(self, block: int, merged: Tensor, gate: Tensor | None = None) -> Tensor:
        """What the block does to its merged heads before their projection.

        gate: what the block's gate was computed from, where it has one.
        """
        parts = self.blocks[block]
        if parts.after_merge is not None:
            merged = parts.after_merge(merged)
        if parts.gate is not None and gate is not None:
            merged = merged * parts.gate(gate).sigmoid()
        return merged

    def output_weight(self, block: int) -> Tensor:
        """The weight (width, H·E) of the linear layer that reads the merged heads."""
        return plain_weight(self.blocks[block].projection)

    # -- the decision --------------------------------------------------------------------------

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

    def gradients_support(self) -> Support:
        """Whether gradients flow through the model."""
        return YES

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
