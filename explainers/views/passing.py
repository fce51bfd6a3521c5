"""What one pass shows besides a trace's tensors: before, inside and after the blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from explainers.models.adapters import Adapter
from explainers.trace import Trace

_LAYERS = (F.linear, F.conv2d)


class Passing(TorchFunctionMode):
    """Watches one forward pass of one photo and changes nothing; everything is detached.

    embedding: what the patch projection makes of the patches (patches, width). before_norm:
    the tokens that a LayerNorm in front of the first block reads (N, width), where there is
    one. hidden: what the MLP of ``block`` widens its tokens to (N, MLP width), before its
    activation. pooled, weight, bias: the vector that the head's last layer reads (width,) and
    its parameters. Each is None where no such call was seen.
    """

    def __init__(self, adapter: Adapter, block: int | None = None) -> None:
        super().__init__()
        self.embedding: Tensor | None = None
        self.before_norm: Tensor | None = None
        self.hidden: Tensor | None = None
        self.pooled: Tensor | None = None
        self.weight: Tensor | None = None
        self.bias: Tensor | None = None
        self._filters = adapter.patch_filters() if adapter.filters_support() else None
        self._norm1 = getattr(adapter.blocks[0].norm1, "weight", None) if adapter.blocks else None
        norm2 = None if block is None else adapter.blocks[block].norm2
        self._norm2 = getattr(norm2, "weight", None)
        self._normed: Tensor | None = None  # what the chosen block's MLP reads
        self._norm: tuple[Tensor, Tensor] | None = None  # the last norm: (read, made)
        self._last: tuple[Tensor, Tensor, Tensor | None, Tensor] | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func in _LAYERS:
            given = dict(zip(("input", "weight", "bias"), args, strict=False)) | (kwargs or {})
            self._layer(given["input"], given["weight"], given.get("bias"), answer)
        elif func is F.layer_norm:
            weight = (kwargs or {}).get("weight", args[2] if len(args) > 2 else None)
            self._normalised(args[0], weight, answer)
        return answer

    def finish(self, answer: Tensor) -> None:
        """Take the last layer for the head's if the model's answer (1, classes) is its output."""
        if self._last is not None:
            read, weight, bias, made = self._last
            same = made.shape == answer.shape and made.data_ptr() == answer.data_ptr()
            if same and read.shape[:-1].numel() == 1:
                self.pooled, self.weight = read.detach().reshape(-1), weight.detach()
                self.bias = None if bias is None else bias.detach()
        self._last = self._norm = self._normed = None

    def _layer(self, read: Tensor, weight: Tensor, bias: Tensor | None, made: Tensor) -> None:
        filters = self._filters
        if filters is not None and weight.data_ptr() == filters.data_ptr():
            cells = made.flatten(2).mT if made.dim() == 4 else made
            self.embedding = cells[0].detach()
        if read is self._normed and self.hidden is None:
            self.hidden = made[0].detach()
        if weight.dim() == 2:
            self._last = read, weight, bias, made

    def _normalised(self, read: Tensor, weight: Tensor | None, made: Tensor) -> None:
        first = weight is not None and weight is self._norm1
        if first and self._norm is not None and self._norm[1] is read:
            self.before_norm = self._norm[0][0].detach()
        if weight is not None and weight is self._norm2:
            self._normed = made
        self._norm = read, made


def watched(trace: Trace, block: int | None = None) -> Passing:
    """One more pass of a trace's photo, watched; ``block``: whose MLP is looked into."""
    passing = Passing(trace.model.adapter, block)
    with torch.inference_mode(False), torch.no_grad():
        with passing:
            answer = trace.model.logits(trace.pixels)
        passing.finish(answer)
    return passing


def learned_prefix(module: torch.nn.Module, count: int) -> Tensor | None:
    """The learned tokens put before the patches (count, width), before positions are added;
    None where the module does not name them as models do."""
    order = ("cls_token", "class_token", "dist_token", "reg_token")
    other = {"distillation_token": "dist_token", "register_tokens": "reg_token"}
    other |= {"class_embedding": "cls_token"}
    found: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        last = name.rsplit(".", 1)[-1]
        last = other.get(last, last)
        if last in order and last not in found and parameter.numel():
            found[last] = parameter.detach().reshape(-1, parameter.shape[-1])
    rows = [found[name] for name in order if name in found]
    if not count or sum(len(row) for row in rows) != count:
        return None
    return torch.cat(rows)
