"""How many bytes a look holds: what its trace keeps, and what stands beside it while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from explainers.attention_call import AttentionCall
from explainers.models.quantised import is_linear, plain_weight, used_weight
from explainers.models.vision_model import VisionModel
from explainers.windowed_call import Call

_AT_ONCE = 3  # what a step reads, what it makes, and the residual stream


def kept_bytes(calls: Sequence[Call], tokens: int) -> tuple[float, float]:
    """What a trace of one photo keeps of its attention calls: for a token and a pair of tokens.

    q and k are as many as a block has tokens, be they of a finer grid than the model's own.
    So are masks inside windows; a mask over all tokens goes by their pairs.
    """
    rows, pairs = 0, 0
    for call in calls:
        rows += call.nbytes
        if isinstance(call, AttentionCall):
            pairs += _mask_bytes(call)
        else:
            rows += _mask_bytes(call.call)
    return rows / tokens, pairs / tokens**2


def _mask_bytes(call: AttentionCall) -> int:
    return 0 if call.mask is None else _bytes(call.mask)


def beside_bytes(vit: VisionModel, pixels: Tensor) -> float:
    """What stands beside a trace while the widest step runs on the pixels of one photo.

    Counted from the widths where all blocks have the model's one grid; else the largest thing
    that a pass makes tells.
    """
    width, widest = _widths(vit)
    if width and vit.adapter.one_grid_support():
        rows, columns = vit.adapter.grid(pixels.shape[-2:])
        item = pixels.element_size()
        return (vit.adapter.prefix + rows * columns) * item * (3 * width + 2 * widest)
    with _Largest() as seen:
        vit.logits(pixels)
    return _AT_ONCE * seen.bytes


def _widths(vit: VisionModel) -> tuple[int, int]:
    """The width of the blocks' stream, and of the widest thing made of it (the MLP's inside)."""
    projections = [block.projection for block in vit.adapter.blocks]
    known = [len(plain_weight(p)) for p in projections if used_weight(p) is not None]
    width = max(known, default=0)
    sides = [
        (layer.in_features, layer.out_features)
        for layer in _linear_layers(vit.module)
        if layer.out_features != vit.classes
    ]
    return width, max((max(pair) for pair in sides if width in pair), default=width)


def _linear_layers(module: nn.Module) -> list[Any]:
    return [layer for layer in module.modules() if is_linear(layer)]


class _Largest(TorchDispatchMode):
    """Sees the bytes of the largest tensor that a pass makes, views of what was there left out."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        answer = func(*args, **(kwargs or {}))
        there = {_place(t) for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        made = [t for t in tree_leaves(answer) if isinstance(t, Tensor)]
        fresh = [_bytes(t) for t in made if _place(t) not in there]
        self.bytes = max([self.bytes, *fresh])
        return answer


def _bytes(tensor: Tensor) -> int:
    """What a tensor takes; one that is spread out without a copy takes less than it shows."""
    return min(tensor.nbytes, tensor.untyped_storage().nbytes())


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
