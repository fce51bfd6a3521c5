"""open_clip's image towers: its own `VisionTransformer`, and timm models that it wraps.

Nothing here imports open_clip: a tower that came from it brings its settings along.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from explainers.models.adapters import Adapter, BlockParts, Pooling
from explainers.models.errors import ModelError
from explainers.sentence import Sentence


class OpenClipAdapter(Adapter):
    """Reads open_clip's `VisionTransformer`. Its answer is an embedding, not classes."""

    family = "open_clip ViT"
    prefix = 1
    prefix_names = ("CLS",)

    def __init__(self, module: Any) -> None:
        self._module = module
        blocks = list(module.transformer.resblocks)
        self.blocks = tuple(
            BlockParts(block.ln_1, block.ln_2, block.attn.out_proj, _after_merge(block.attn))
            for block in blocks
        )
        self.heads = blocks[0].attn.num_heads
        height, width = module.patch_size
        self.patch = int(height), int(width)
        self.input_size = int(module.image_size[0]), int(module.image_size[1])
        self.pooling, self.pooling_name = self._pooling()

    def _pooling(self) -> tuple[Pooling, str]:
        module = self._module
        if module.attn_pool is not None:
            return "other", "an attention pool of several queries"
        if module.pool_type == "tok":
            return "token", "token"
        return ("avg", "avg") if module.pool_type == "avg" else ("other", module.pool_type)

    def run(self, module: nn.Module, pixels: Tensor) -> Any:
        """The embedding (B, width); a tower that also hands out its tokens gives them second."""
        found = module(pixels)
        return found[0] if isinstance(found, tuple) else found

    def _filters(self) -> Tensor | None:
        weight: Tensor = self._module.conv1.weight
        return weight.detach()

    def _positions(self) -> Tensor | None:
        table: Tensor = self._module.positional_embedding
        return table

    def _positions_grid(self) -> tuple[int, int]:
        rows, columns = self._module.grid_size
        return int(rows), int(columns)


def _after_merge(attention: nn.Module) -> nn.Module | None:
    """The custom attention's norm between the merged heads and their projection."""
    return getattr(attention, "ln_inner", None)


def image_tower(module: Any) -> Any:
    """The image tower of an open_clip model that was given whole; a tower is given back."""
    return module.visual if hasattr(module, "visual") else module


def from_open_clip(module: nn.Module) -> bool:
    """Whether a module's class is one of open_clip, or derives from one."""
    return any(kind.__module__.startswith("open_clip.") for kind in type(module).__mro__)


def refuse_tower(module: nn.Module, part: str) -> ModelError:
    """The refusal of towers of another design."""
    return ModelError(
        Sentence(
            "open_clip_not_read",
            "This image tower of open_clip ({part}) is not read; its VisionTransformer, and timm "
            "models whose embedding is their own head, are.",
            part=f"{type(module).__name__}, {part}" if part else type(module).__name__,
        )
    )
