"""Seeing a model's attention without touching the model.

A `torch.overrides.TorchFunctionMode` watches one forward pass. It sees every call of
`F.scaled_dot_product_attention` (or the same thing written out with a softmax) and keeps
q, k, mask and scale, never the N×N matrix: any attention row can be computed again from
them. Other tensors are recognised by the parameter a call uses. The mode is thread-local
and changes nothing on the model, so people can trace one shared model at the same time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from explainers.attention_call import AttentionCall, exact
from explainers.models.adapters import Adapter
from explainers.models.errors import ModelError
from explainers.sentence import Sentence


class Capture(TorchFunctionMode):
    """Watches one forward pass of an adapted model.

    keep: names of other tensors to keep (see `Adapter.watch`). values: keep v and the
    output of each call, as the gradient pass needs them (its graph stays attached to the
    output). check: compare each block's attention, computed again, with what its output
    projection received; the relative errors land in `deviations`.
    """

    def __init__(
        self,
        adapter: Adapter,
        keep: Collection[str] = (),
        values: bool = False,
        check: bool = False,
    ) -> None:
        super().__init__()
        self.calls: list[AttentionCall] = []
        self.tensors: dict[tuple[str, int], Tensor] = {}
        self.deviations: list[float] = []
        self._adapter = adapter
        self._watch = adapter.watch()
        self._keep = frozenset(keep)
        self._values, self._check = values, check
        self._last_middle: Tensor | None = None
        self._written: _WrittenOut | None = None
        self._unchecked: AttentionCall | None = None

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        handler = _HANDLERS.get(func)
        return handler(self, func, args, kwargs) if handler else func(*args, **kwargs)

    # -- attention ---------------------------------------------------------------------

    def _fused(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        query, key, value, mask, _, is_causal, scale, *gqa = _bind(_SDPA, args, kwargs)
        if any(gqa):
            raise ModelError(
                Sentence(
                    "capture_grouped",
                    "This model's heads share keys (grouped-query attention), which has no "
                    "one-to-one map of heads; choose another model.",
                )
            )
        if is_causal:
            size = query.shape[-2], key.shape[-2]
            mask = torch.ones(size, dtype=torch.bool, device=query.device).tril()
        self._record(query, key, value, mask, scale or query.shape[-1] ** -0.5, output)
        return output

    def _record(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, output: Tensor
    ) -> None:
        call = AttentionCall(_own(q), _own(k), scale, None if mask is None else mask.detach())
        if self._check:
            self._unchecked = replace(call, v=v.detach())
        if self._values:
            call = replace(call, v=_own(v), output=output)
        self.calls.append(call)

    def _multi_head(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """`nn.MultiheadAttention` hides its call: answer it here through the same kernel."""
        a = _MULTI_HEAD.bind(*args, **kwargs)
        a.apply_defaults()
        p = a.arguments
        unusual = [
            name
            for name in ("bias_k", "bias_v", "static_k", "static_v", "key_padding_mask")
            if p[name] is not None
        ] + [name for name in ("add_zero_attn", "need_weights") if p[name]]
        if p["query"].dim() != 3:
            unusual.append("unbatched")
        if unusual:
            raise ModelError(
                Sentence(
                    "capture_multi_head",
                    "This model calls nn.MultiheadAttention with {options}, which is not read "
                    "here; call it with need_weights=False and without these options.",
                    options=", ".join(unusual),
                )
            )
        weights = (
            (p["q_proj_weight"], p["k_proj_weight"], p["v_proj_weight"])
            if p["use_separate_proj_weight"]
            else p["in_proj_weight"].chunk(3)
        )
        biases = (None,) * 3 if p["in_proj_bias"] is None else p["in_proj_bias"].chunk(3)
        heads = p["num_heads"]
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)  # (B, H, N, D)
            for x, w, b in zip((p["query"], p["key"], p["value"]), weights, biases, strict=True)
        )
        mask = p["attn_mask"]
        if mask is not None and mask.dim() == 3:
            mask = mask.unflatten(0, (-1, heads))
        if mask is not None and mask.dtype == torch.bool:
            mask = ~mask  # nn.MultiheadAttention marks what may *not* be seen
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        self._record(q, k, v, mask, q.shape[-1] ** -0.5, output)
        merged = output.permute(2, 0, 1, 3).flatten(2)  # (N, B, H·D)
        return self._linear(F.linear, (merged, p["out_proj_weight"], p["out_proj_bias"]), {}), None

    # -- attention written out: softmax(q kᵀ + mask) v ------------------------------------

    def _matmul(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        left, right = args[0], args[1]
        if left.dim() == 4 and right.dim() == 4:
            written = self._written
            if written and written.weights is not None and left.shape == written.weights.shape:
                self._record(written.q, written.k, right, written.mask, 1.0, output)
                self._written = None
            else:
                self._written = _WrittenOut(left, right.transpose(-2, -1), output)
        return output

    def _softmax(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        if self._written and args[0] is self._written.scores:
            self._written.weights = output
        return output

    def _add(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        if self._written and args[0] is self._written.scores:
            self._written.mask, self._written.scores = args[1], output
        if args[0] is self._last_middle:  # the last block's second residual sum
            self._store("output", self._adapter.depth - 1, output)
            self._last_middle = None
        return output

    # -- other tensors ---------------------------------------------------------------------

    def _norm(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        weight = kwargs.get("weight", args[2] if len(args) > 2 else None)
        found = self._watch.get(id(weight))
        if found:
            (before, after), block = found
            self._store(before, block, args[0])
            self._store(after, block, output)
            if before == "middle" and block == self._adapter.depth - 1:
                self._last_middle = args[0]
        return output

    def _linear(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        found = self._watch.get(id(args[1]) if len(args) > 1 else 0)
        if found:
            (before, _), block = found
            self._store(before, block, args[0])
            if self._unchecked is not None:
                self.deviations.append(self._deviation(block, args[0], self._unchecked))
                self._unchecked = None
        return func(*args, **kwargs)

    def _store(self, name: str, block: int, tensor: Tensor) -> None:
        if name in self._keep:
            self.tensors[name, block] = tensor if self._values else tensor.detach()

    def _deviation(self, block: int, received: Tensor, call: AttentionCall) -> float:
        """Relative error of the merged A·v, computed again, against what the block used."""
        v = exact(call.v)  # type: ignore[arg-type]
        rows = torch.arange(call.q.shape[2], device=v.device)
        parts = [attention @ v for _, attention in call.chunks(rows)]
        merged = torch.cat(parts, 2).transpose(1, 2).flatten(2)  # (B, N, H·E)
        merged = self._adapter.after_merge(block, merged.to(received.dtype))
        if received.shape != merged.shape:  # nn.MultiheadAttention keeps the batch second
            received = received.transpose(0, 1)
        if received.shape != merged.shape:
            return float("inf")
        error = (merged - received).abs().max() / received.abs().max().clamp_min(1e-30)
        return float(error)


@dataclass
class _WrittenOut:
    """An attention being computed step by step by the model itself (q is scaled already)."""

    q: Tensor
    k: Tensor
    scores: Tensor
    mask: Tensor | None = None
    weights: Tensor | None = None


_SDPA = (None, None, None, None, 0.0, False, None, False)
_SDPA_NAMES = (
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa",
)  # fmt: skip
_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)

_HANDLERS: dict[Any, Callable[[Capture, Callable[..., Any], Any, Any], Any]] = {
    F.scaled_dot_product_attention: Capture._fused,
    F.multi_head_attention_forward: Capture._multi_head,
    F.layer_norm: Capture._norm,
    F.linear: Capture._linear,
    Tensor.matmul: Capture._matmul,
    torch.matmul: Capture._matmul,
    Tensor.softmax: Capture._softmax,
    torch.softmax: Capture._softmax,
    F.softmax: Capture._softmax,
    Tensor.add: Capture._add,
}


def stored_as(name: str, block: int, depth: int) -> tuple[str, int]:
    """Where a kept tensor is found: the stream leaving a block is what enters the next."""
    return ("input", block + 1) if name == "output" and block < depth - 1 else (name, block)


def _bind(defaults: tuple[Any, ...], args: Any, kwargs: Any) -> list[Any]:
    given = (*args, *defaults[len(args) :])
    return [kwargs.get(name, value) for name, value in zip(_SDPA_NAMES, given, strict=True)]


def _own(tensor: Tensor) -> Tensor:
    """A contiguous detached copy; a view would hold the storage of q, k and v together."""
    tensor = tensor.detach().contiguous()
    holds_more = tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()
    return tensor.clone() if holds_more else tensor
