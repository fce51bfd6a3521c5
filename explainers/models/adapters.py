"""What the library must know of a model's family: its blocks, tokens, grid and decision.

Everything is read from the module's own attributes, never from a model's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

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


class TimmAdapter(Adapter):
    """timm's `VisionTransformer`: ViT, DeiT (also distilled), AugReg, DINOv2, registers, …"""

    family = "timm ViT"

    def __init__(self, module: Any) -> None:
        self._module = module
        self.blocks = tuple(
            BlockParts(block.norm1, block.norm2, block.attn.proj, getattr(block.attn, "norm", None))
            for block in module.blocks
        )
        self.heads = module.blocks[0].attn.num_heads
        self.classes = module.num_classes
        self.prefix = module.num_prefix_tokens
        registers = getattr(module, "num_reg_tokens", 0)
        named = ["CLS"] if module.has_class_token else []
        if hasattr(module, "head_dist"):
            named.append("DIST")
        self.prefix_names = (*named, *(f"register {i + 1}" for i in range(registers)))
        self.patch = tuple(module.patch_embed.patch_size)
        self.pooling_name = module.global_pool
        self.pooling = self._pooling()

    def _pooling(self) -> Pooling:
        if hasattr(self._module, "head_dist"):
            return "distilled"
        if self.pooling_name == "avg":
            return "all" if self._module.pool_include_prefix else "avg"
        if self.pooling_name == "map" and self._module.attn_pool.latent_len == 1:
            return "map"
        return "token" if self.pooling_name == "token" else "other"

    def grid(self, size: Sequence[int]) -> tuple[int, int]:
        rows, columns = self._module.patch_embed.dynamic_feat_size(tuple(size))
        return int(rows), int(columns)

    def readout_support(self) -> Support:
        return YES if self.classes else Adapter.readout_support(self)

    def read_out(self, stream: Tensor) -> Tensor:
        module = self._module
        if self.pooling == "map":
            return module.forward_head(module.norm(stream))
        vector = module.fc_norm(module.norm(stream.mean(1)))
        if self.pooling == "distilled":
            return (module.head(vector) + module.head_dist(vector)) / 2
        return module.head(vector)

    def _filters(self) -> Tensor | None:
        weight = getattr(getattr(self._module.patch_embed, "proj", None), "weight", None)
        return weight.detach() if weight is not None and weight.shape[1:2] == (3,) else None

    def _positions(self) -> Tensor | None:
        return getattr(self._module, "pos_embed", None)

    def _positions_grid(self) -> tuple[int, int]:
        rows, columns = self._module.patch_embed.grid_size
        return int(rows), int(columns)


def adapt(module: nn.Module, size: tuple[int, int] | None) -> Adapter:
    """The adapter of a module's family; ModelError says why a family is not read."""
    # timm takes two seconds to import: only when a model is at hand.
    from timm.layers import Attention, PatchEmbed
    from timm.models.vision_transformer import Block, VisionTransformer

    from explainers.models.encoder_adapter import EncoderAdapter, find_encoder

    if isinstance(module, VisionTransformer):
        blocks: list[Any] = list(module.blocks)
        standard = all(type(b) is Block and type(b.attn) is Attention for b in blocks)
        if standard and all(getattr(b.attn, "gate", None) is None for b in blocks):
            if isinstance(module.patch_embed, PatchEmbed):
                return TimmAdapter(module)
            raise _refusal(module, type(module.patch_embed).__name__)
        raise _refusal(module, type(blocks[0]).__name__ + "/" + type(blocks[0].attn).__name__)
    encoder = find_encoder(module)
    if encoder is not None:
        return EncoderAdapter(module, encoder, size)
    raise _refusal(module, type(module).__name__)


def _refusal(module: nn.Module, part: str) -> ModelError:
    return ModelError(
        Sentence(
            "family_not_read",
            "{family} is not read yet (its {part} is of another design than the plain Vision "
            "Transformer's); plain, distilled, register and average-pooling ViTs of timm and "
            "models built on nn.TransformerEncoder are.",
            family=type(module).__name__,
            part=part,
        )
    )


def _demand(tensor: Tensor | None, support: Support) -> Tensor:
    if tensor is None:
        raise ModelError(support.reason)
    return tensor
