"""timm's `VisionTransformer`: ViT, DeiT (also distilled), AugReg, DINOv2, registers, …"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from explainers.models import token_removal
from explainers.models.adapters import YES, Adapter, BlockParts, Pooling, Stages
from explainers.models.errors import ModelError
from explainers.registry import Support


class TimmAdapter(Adapter):
    """Reads the attributes that timm's models carry."""

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

    def stages(self) -> Stages | None:
        from timm.models.vision_transformer import VisionTransformer

        module = self._module
        if type(module).forward_features is not VisionTransformer.forward_features:
            return None

        def embed(pixels: Tensor) -> Tensor:
            tokens = module._pos_embed(module.patch_embed(pixels))
            return module.norm_pre(module.patch_drop(tokens))

        def head(stream: Tensor) -> Tensor:
            return module.forward_head(module.norm(stream))

        return Stages(embed, tuple(module.blocks), head)

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

    def removal_support(self) -> Support:
        return token_removal.timm_support(self._module)

    def forward_tokens(self, pixels: Tensor, keep: Tensor) -> Tensor:
        support = self.removal_support()
        if not support:
            raise ModelError(support.reason)
        return token_removal.forward_tokens(self._module, pixels, keep)

    def _filters(self) -> Tensor | None:
        weight = getattr(getattr(self._module.patch_embed, "proj", None), "weight", None)
        return weight.detach() if weight is not None and weight.shape[1:2] == (3,) else None

    def _positions(self) -> Tensor | None:
        return getattr(self._module, "pos_embed", None)

    def _positions_grid(self) -> tuple[int, int]:
        rows, columns = self._module.patch_embed.grid_size
        return int(rows), int(columns)
