"""timm's models of one grid of tokens: ViT, DeiT, CLIP, SigLIP, DINO, EVA, BEiT, NaFlexViT, …"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from explainers.models import timm_blocks, token_removal
from explainers.models.adapters import YES, Adapter, BlockParts, Pooling, Stages
from explainers.models.errors import ModelError
from explainers.models.own_heads import said_classes, timm_head
from explainers.models.quantised import is_linear, plain_weight
from explainers.registry import Support

_KINDS = {"VisionTransformer", "Eva", "Beit", "VisionTransformerRelPos", "NaFlexVit"}


def is_token_model(module: nn.Module) -> bool:
    """Whether a module is one of timm's that hold one grid of tokens from block to block."""
    kinds = type(module).__mro__
    return any(k.__name__ in _KINDS and k.__module__.startswith("timm.") for k in kinds)


class TimmAdapter(Adapter):
    """Reads the attributes that timm's models of one grid of tokens have in common."""

    family = "timm ViT"

    def __init__(self, module: Any, blocks: tuple[BlockParts, ...]) -> None:
        self._module = module
        self._embed = getattr(module, "patch_embed", None) or module.embeds
        self.any_size = hasattr(module, "embeds")  # NaFlexViT
        self.blocks = blocks
        self.heads = timm_blocks.heads_of(module.blocks[0])
        self.prefix = module.num_prefix_tokens
        self.prefix_names = self._names()
        self.patch = tuple(self._embed.feat_ratio(as_scalar=False))
        self.pool_projection = getattr(getattr(module, "attn_pool", None), "proj", None)
        self.pooling_name = module.global_pool
        self.pooling = self._pooling()
        self.head = timm_head(module)
        # Without pooling the answer is one of every token, which is no class's.
        self.classes = said_classes(self.head) if module.global_pool else 0

    def _names(self) -> tuple[str, ...]:
        owner = self._module if hasattr(self._module, "cls_token") else self._embed
        named = [] if getattr(owner, "cls_token", None) is None else ["CLS"]
        if hasattr(self._module, "head_dist"):
            named.append("DIST")
        registers = self.prefix - len(named)
        return (*named, *(f"register {i + 1}" for i in range(registers)))

    def _pooling(self) -> Pooling:
        module = self._module
        if hasattr(module, "head_dist"):
            return "distilled"
        if self.pooling_name == "avg":
            return "all" if getattr(module, "pool_include_prefix", False) else "avg"
        if self.pooling_name == "map" and module.attn_pool.latent_len == 1:
            return "map"
        return "token" if self.pooling_name == "token" else "other"

    @property
    def calls(self) -> int:
        pools = getattr(self._module, "attn_pool", None) is not None
        return self.depth + pools

    def attention_support(self) -> Support:
        return timm_blocks.attention_support(self._module.blocks)

    def merged(self, block: int, received: Tensor) -> Tensor:
        return received[..., : self._merged_width(block)]

    def output_weight(self, block: int) -> Tensor:
        return Adapter.output_weight(self, block)[:, : self._merged_width(block)]

    def _merged_width(self, block: int) -> int:
        """How much of the projection's input the heads fill; the rest is the MLP's."""
        parts, owner = self.blocks[block], self._module.blocks[block]
        width = int(parts.projection.in_features)  # type: ignore[arg-type]
        fused = getattr(owner, "out_proj", None) is parts.projection
        return int(owner.num_heads * owner.head_dim) if fused else width

    def grid(self, size: Sequence[int]) -> tuple[int, int]:
        rows, columns = self._embed.dynamic_feat_size(tuple(size))
        return int(rows), int(columns)

    def stages(self) -> Stages | None:
        from timm.models.vision_transformer import VisionTransformer

        module = self._module
        own = type(module).forward_features is VisionTransformer.forward_features
        if not own or not self.attention_support():
            return None

        def embed(pixels: Tensor) -> Tensor:
            tokens = module._pos_embed(module.patch_embed(pixels))
            return module.norm_pre(module.patch_drop(tokens))

        def head(stream: Tensor) -> Tensor:
            return module.forward_head(module.norm(stream))

        steps = [step for block in module.blocks for step in _halves(block)]
        return Stages(embed, tuple(steps), head)

    def readout_support(self) -> Support:
        refined = self.pooling == "other" and self.calls > self.depth
        return YES if self.classes and not refined else Adapter.readout_support(self)

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
        weight = _first_weight(self._embed)
        if weight is None:
            return None
        if weight.dim() == 4:
            return weight.detach() if weight.shape[1] == 3 else None
        shape = (*self.patch, 3) if self._embed.channels_last else (3, *self.patch)
        if weight.shape[1] != math.prod(shape):
            return None
        cut = weight.detach().unflatten(1, shape)
        return cut.permute(0, 3, 1, 2) if self._embed.channels_last else cut

    def _positions(self) -> Tensor | None:
        owner = self._owner_of_positions()
        if getattr(owner, "pos_embed_y", None) is not None:  # one table a side, added up
            table: Tensor = owner.pos_embed_y[:, :, None] + owner.pos_embed_x[:, None]
            return table
        return getattr(owner, "pos_embed", None)

    def _owner_of_positions(self) -> Any:
        return self._module if hasattr(self._module, "patch_embed") else self._embed

    def _positions_grid(self) -> tuple[int, int]:
        stored = self._positions()
        if stored is None:
            return self._embed.grid_size
        rows, columns = stored.shape[1:3] if stored.dim() == 4 else self._embed.grid_size
        return int(rows), int(columns)


def _first_weight(embedding: nn.Module) -> Tensor | None:
    """The weight of the layer that reads the photo: a hybrid's is its stem's convolution."""
    layers = (m for m in embedding.modules() if isinstance(m, nn.Conv2d) or is_linear(m))
    first = next(layers, None)
    return None if first is None else plain_weight(first)


def _halves(block: Any) -> tuple[Callable[[Tensor], Tensor], ...]:
    """A plain block's attention and its MLP, each with its sum; another block as a whole."""
    from timm.models.vision_transformer import Block

    if type(block) is not Block:
        return (block,)

    def attend(stream: Tensor) -> Tensor:
        return stream + block.drop_path1(block.ls1(block.attn(block.norm1(stream))))

    def think(stream: Tensor) -> Tensor:
        return stream + block.drop_path2(block.ls2(block.mlp(block.norm2(stream))))

    return attend, think
