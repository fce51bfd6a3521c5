"""timm's vision encoders of language models, also with a classifier: DeepSeek, Qwen3, Gemma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from explainers.models import timm_blocks
from explainers.models.adapters import YES, Adapter, BlockParts, Pooling
from explainers.models.own_heads import said_classes, timm_head
from explainers.models.quantised import plain_weight
from explainers.registry import Support
from explainers.sentence import Sentence

_KINDS = {
    f"{name}{part}"
    for name in ("DeepseekVit", "Qwen3Vit", "Gemma4Vit")
    for part in ("Encoder", "Classifier")
}


def is_language_encoder(module: nn.Module) -> bool:
    """Whether a module is one of timm's vision encoders of language models."""
    return any(
        k.__name__ in _KINDS and k.__module__.startswith("timm.") for k in type(module).__mro__
    )


class TimmEncoderAdapter(Adapter):
    """Reads the encoder, and the mean and the linear head that a classifier puts on it.

    Without prefix tokens the mean of the patches decides. Where the encoder's own projector
    first makes one token of several patches, no row of attention is the model's look.
    """

    family = "timm encoder of a language model"

    def __init__(self, module: Any) -> None:
        self._module = module
        self._core = core = getattr(module, "encoder", module)
        self.blocks = tuple(_parts(block) for block in core.blocks)
        self.heads = core.blocks[0].attn.num_heads
        self.head = timm_head(module)
        self.classes = said_classes(self.head) if module.global_pool == "avg" else 0
        height, width = core.patch_embed.patch_size
        self.patch = int(height), int(width)
        stored = getattr(core.patch_embed, "img_size", None)
        self.input_size = None if stored is None else (int(stored[0]), int(stored[1]))
        self._projector = getattr(core, "aligner", None) or getattr(core, "merger", None)
        self.any_size = self._projector is None
        self.pooling_name = module.global_pool
        self.pooling: Pooling = "other"
        if self._projector is not None:
            self.pooling_name = "a projector of several patches"
        elif module.global_pool == "avg":
            self.pooling = "avg"

    def grid(self, size: Sequence[int]) -> tuple[int, int]:
        embedding = self._core.patch_embed
        if not hasattr(embedding, "dynamic_feat_size"):
            return Adapter.grid(self, size)
        rows, columns = embedding.dynamic_feat_size(tuple(size))
        return int(rows), int(columns)

    def readout_support(self) -> Support:
        return YES if self.classes and self._projector is None else Adapter.readout_support(self)

    def read_out(self, stream: Tensor) -> Tensor:
        core, module = self._core, self._module
        vector = stream.mean(1)
        if hasattr(core, "norm"):
            vector = core.norm(vector)
        if core.global_pool == "soft":  # means of 3×3 patches, scaled and standardised
            vector = vector * core.pooler.root_hidden_size
            if core.std_bias is not None:
                vector = (vector - core.std_bias) * core.std_scale
        answer: Tensor = module.head(module.norm(vector))
        return answer

    def _filters(self) -> Tensor | None:
        embedding = self._core.patch_embed
        if hasattr(embedding, "input_proj"):  # a linear layer over (3, height, width)
            weight: Tensor = plain_weight(embedding.input_proj).unflatten(1, (-1, *self.patch))
        else:
            weight = embedding.proj.weight
        return weight.detach() if weight.shape[1] == 3 else None

    def _positions(self) -> Tensor | None:
        return getattr(self._core, "pos_embed", None)

    def _positions_grid(self) -> tuple[int, int]:
        side = int(self._core.pos_embed_grid_size)
        return side, side

    def positions_support(self) -> Support:
        if not hasattr(self._core.patch_embed, "position_embedding_table"):
            return Adapter.positions_support(self)
        return Support(
            False,
            Sentence(
                "positions_looked_up",
                "This model looks each patch's position up by its row and its column, in two "
                "tables far longer than any photo's grid, so it has no grid of positions to show.",
            ),
        )


class _Limits(nn.Module):
    """What Gemma's linear layers do to what they are given: clip it."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self._low, self._high = layer.input_min, layer.input_max

    def forward(self, given: Tensor) -> Tensor:
        return torch.clamp(given, self._low, self._high)


def _parts(block: Any) -> BlockParts:
    if not hasattr(block, "norm3"):
        (parts,) = timm_blocks.read_blocks([block]) or ()
        return parts
    last = block.attn.o_proj  # Gemma: each part between two norms
    return BlockParts(
        block.norm1, block.norm3, last.linear, _Limits(last) if last.use_clipped else None
    )
