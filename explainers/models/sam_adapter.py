"""timm's `VisionTransformerSAM`: one grid, windows in most blocks, the whole grid in some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from explainers.attention_call import AttentionCall
from explainers.models.adapters import Adapter, BlockParts, Pooling
from explainers.models.own_heads import said_classes, timm_head
from explainers.models.windows import windows
from explainers.windowed_call import Call, WindowedCall


def is_sam(module: nn.Module) -> bool:
    """Whether a module is timm's image encoder of Segment Anything."""
    kinds = type(module).__mro__
    return any(
        k.__name__ == "VisionTransformerSAM" and k.__module__.startswith("timm.") for k in kinds
    )


class SamAdapter(Adapter):
    """Reads the image encoder of Segment Anything (Kirillov et al., ICCV 2023).

    Its stream is (B, h, w, width), without prefix tokens, and a neck of convolutions stands
    between the last block and the mean over the grid. A grid that is no multiple of the window
    is padded inside the blocks: attention that falls on padding is missing from the rows' sums.
    """

    family = "timm SAM ViT"

    def __init__(self, module: Any) -> None:
        self._module = module
        self.blocks = tuple(BlockParts(b.norm1, b.norm2, b.attn.proj) for b in module.blocks)
        self.heads = module.blocks[0].attn.num_heads
        self.head = timm_head(module)
        self.classes = said_classes(self.head)
        self.any_size = module.rope_global is None
        self.patch = tuple(module.patch_embed.patch_size)
        self.pooling_name = module.global_pool
        self.pooling: Pooling = "avg" if module.global_pool == "avg" else "other"

    def grid(self, size: Sequence[int]) -> tuple[int, int]:
        rows, columns = self._module.patch_embed.dynamic_feat_size(tuple(size))
        return int(rows), int(columns)

    def _window(self, index: int) -> int:
        """The side of a block's windows; 0 where it attends over the whole grid."""
        return int(self._module.blocks[index].window_size)

    def _slots(self, index: int, size: Sequence[int]) -> Tensor:
        """The cell in each slot of each window (W, n); −1 is padding."""
        side = self._window(index)
        return windows(self.grid(size), (side, side))

    def on_grid(self, index: int, call: AttentionCall, size: Sequence[int]) -> Call:
        if not self._window(index):
            return call
        rows, columns = self.grid(size)
        slots = self._slots(index, size)
        return WindowedCall(call, slots, slots, rows * columns, rows * columns)

    def in_order(self, index: int, tensor: Tensor, size: Sequence[int]) -> Tensor:
        if not self._window(index):
            return tensor
        slots = self._slots(index, size).flatten().to(tensor.device)  # (W·n,)
        real = (slots >= 0).nonzero().flatten()
        places = torch.empty_like(real)
        places[slots[real]] = real
        apart = tensor.unflatten(0, (-1, len(slots) // tensor.shape[2]))  # (B, W, H, n, E)
        return apart.transpose(1, 2).flatten(2, 3)[:, :, places]

    def _filters(self) -> Tensor | None:
        weight: Tensor = self._module.patch_embed.proj.weight
        return weight.detach() if weight.shape[1] == 3 else None

    def _positions(self) -> Tensor | None:
        return self._module.pos_embed

    def _positions_grid(self) -> tuple[int, int]:
        rows, columns = self._module.patch_embed.grid_size
        return int(rows), int(columns)
