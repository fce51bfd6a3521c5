"""Seeing a model's attention without touching the model.

A `torch.overrides.TorchFunctionMode` watches one forward pass. It sees every call of
`F.scaled_dot_product_attention` (or the same thing written out with a softmax) and keeps
q, k, mask and scale, never the N×N matrix: any attention row can be computed again from
them. Other tensors are recognised by the parameter a call uses. The mode is thread-local
and changes nothing on the model, so people can trace one shared model at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from explainers.attention_call import AttentionCall, exact
from explainers.models.adapters import Adapter
from explainers.models.feature_map import last_map
from explainers.models.quantised import QUANTISED_CALLS
from explainers.multi_head import read_multi_head
from explainers.written_attention import WrittenAttention
from explainers.written_norm import NormReader


class Capture(TorchFunctionMode):
    """Watches one forward pass of an adapted model.

    keep: names of other tensors to keep (see `Adapter.watch`). values: keep v and the
    output of each call, as the gradient pass needs them (its graph stays attached to the
    output). check: compare each block's attention, computed again, with what its output
    projection received; the relative errors land in `deviations`. Where the adapter refuses
    attention, no call is kept.
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
        self.adapter = adapter
        self.draws = False  # whether the pass left something to chance
        self._watch = adapter.watch()
        self._keep = frozenset(keep)
        self._values, self._check = values, check
        self._records = bool(adapter.attention_support())
        self._end = (adapter.last_sum, adapter.depth - 1)
        self._last: Tensor | None = None  # what the last block's last sum starts from
        self._gate: Tensor | None = None  # what a gate of the attention was computed from
        self._written = WrittenAttention()
        self._norms = NormReader()
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
        if not self._records:
            return output
        query, key, value, mask, _, is_causal, scale, gqa = _bind(_SDPA, args, kwargs)
        if gqa:  # heads that share keys: each still has a map of its own
            groups = query.shape[-3] // key.shape[-3]
            key, value = (t.repeat_interleave(groups, -3) for t in (key, value))
        if is_causal:
            size = query.shape[-2], key.shape[-2]
            mask = torch.ones(size, dtype=torch.bool, device=query.device).tril()
        return self._seen(query, key, value, mask, scale or query.shape[-1] ** -0.5, output)

    def _seen(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, output: Tensor
    ) -> Tensor:
        """Record an attention; what the model goes on with is returned."""
        if q.dim() != 3:
            self._record(q, k, v, mask, scale, output)
            return output
        # Photos and heads in one dimension, (B·H, N, D). What is handed on comes from the
        # split output, so that a gradient reaches the latter.
        q, k, v, split = (self._heads(t) for t in (q, k, v, output))
        if mask is not None and mask.dim() == 3:
            mask = self._heads(mask) if mask.shape[0] > 1 else mask[None]
        self._record(q, k, v, mask, scale, split)
        return split.flatten(0, 1)

    def _heads(self, tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (-1, self.adapter.heads))

    def _record(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, output: Tensor
    ) -> None:
        q, k, v, output = (self.adapter.fold(len(self.calls), t) for t in (q, k, v, output))
        call = AttentionCall(_own(q), _own(k), scale, None if mask is None else mask.detach())
        if self._check:
            self._unchecked = replace(call, v=v.detach())
        if self._values:
            call = replace(call, v=_own(v), output=output)
        self.calls.append(call)

    def _multi_head(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """`nn.MultiheadAttention` hides its call: answer it here through the same kernel."""
        if not self._records:
            return func(*args, **kwargs)
        found = read_multi_head(args, kwargs)
        q, k, v, mask = found.q, found.k, found.v, found.mask
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        self._record(q, k, v, mask, q.shape[-1] ** -0.5, output)
        merged = output.permute(2, 0, 1, 3).flatten(2)  # (N, B, H·D)
        return self._linear(F.linear, (merged, found.weight, found.bias), {}), None

    def _matmul(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        if self._records and len(args) == 2:
            done = self._written.product(args[0], args[1], output)
            if done:
                return self._seen(done.q, done.k, done.v, done.mask, done.scale, output)
        return output

    def _softmax(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        if args:
            self._written.softmax(args[0], output)
        return output

    def _written_into(self, func: Callable[..., Any], args: Any, kwargs: Any) -> None:
        before = self._written.before(args[0])
        func(*args, **kwargs)
        if before is not None:
            self._written.changed(args[0].detach() - before)

    def _add(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        if len(args) == 2:
            self._written.sum(args[0], args[1], output)
            if self._last is not None and any(term is self._last for term in args):
                self._store("output", self.adapter.depth - 1, output)
                self._last = None
        return output

    def _dropout(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        p, training = (
            kwargs.get(name, args[place] if len(args) > place else usual)
            for place, (name, usual) in enumerate((("p", 0.5), ("training", True)), start=1)
        )
        self.draws = self.draws or bool(training and p)
        output: Tensor = func(*args, **kwargs)
        return output

    # -- other tensors ---------------------------------------------------------------------

    def _norm(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        weight = kwargs.get("weight", args[2] if len(args) > 2 else None)
        self._normed(self._norms.source(args[0]), self._norms.weight(weight), output)
        return output

    def _mul(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        if len(args) == 2 and isinstance(args[0], Tensor):
            self._written.scaling(args[0], args[1], output)
            found = self._norms.product(args[0], args[1], output)
            if found:
                self._normed(*found, output)
        return output

    def _view(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        self._written.view(args[0], output)
        return output

    def _cast(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        output = func(*args, **kwargs)
        self._norms.cast(args[0], output, id(args[0]) in self._watch)
        return output

    def _normed(self, read: Tensor, weight: Any, output: Tensor) -> None:
        """A norm has run, whichever function computed it."""
        if id(weight) in self._watch:
            self._see(weight, read, output)

    def _linear(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        weight = kwargs.get("weight", args[1] if len(args) > 1 else None)
        if id(weight) in self._watch:
            self._see(weight, args[0])
        return func(*args, **kwargs)

    def _see(self, weight: Tensor, read: Tensor, output: Tensor | None = None) -> None:
        """A parameter that names a place was used: keep what it read and what came of it."""
        before, after, block = self._watch[id(weight)]
        for name in before:
            if name == "heads":
                read = self.adapter.merged(block, read)
            elif name == "gate":
                self._gate = read
            if name in ("heads", "pooled") and self._unchecked is not None:
                self.deviations.append(self._deviation(block, read, self._unchecked))
                self._unchecked = self._gate = None
            self._store(name, block, read)
            if (name, block) == self._end:
                self._last = read
        if output is not None:
            for name in after:
                self._store(name, block, output)

    def _last_map(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        self._store("output", self.adapter.depth - 1, args[0])
        return args[0]

    def _store(self, name: str, block: int, tensor: Tensor) -> None:
        if name in self._keep:
            kept = tensor if self._values else self.adapter.as_tokens(tensor.detach())
            self.tensors[name, block] = kept

    def _deviation(self, block: int, received: Tensor, call: AttentionCall) -> float:
        """Relative error of the merged A·v, computed again, against what the block used."""
        received = received.detach()
        v = exact(call.v)  # type: ignore[arg-type]
        rows = torch.arange(call.rows_count, device=v.device)
        parts = [attention @ v for _, attention in call.chunks(rows)]
        heads = torch.cat(parts, 2)  # (B, H, N, E)
        inside = block < self.adapter.depth  # not the attention pool
        if inside:
            heads = self.adapter.before_merge(block, heads, call.q)
        merged = heads.transpose(1, 2).flatten(2).to(received.dtype)  # (B, N, H·E)
        if inside:
            merged = self.adapter.after_merge(block, merged, self._gate)
        if received.shape != merged.shape:  # nn.MultiheadAttention keeps the batch second
            received = received.transpose(0, 1)
        if received.shape != merged.shape:
            return float("inf")
        error = (merged - received).abs().max() / received.abs().max().clamp_min(1e-30)
        return float(error)


_SDPA = (None, None, None, None, 0.0, False, None, False)
_SDPA_NAMES = (
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa",
)  # fmt: skip

_HANDLERS: dict[Any, Callable[[Capture, Callable[..., Any], Any, Any], Any]] = {
    F.scaled_dot_product_attention: Capture._fused,
    F.multi_head_attention_forward: Capture._multi_head,
    F.dropout: Capture._dropout,
    F.layer_norm: Capture._norm,
    F.rms_norm: Capture._norm,
    F.linear: Capture._linear,
    **dict.fromkeys(QUANTISED_CALLS, Capture._linear),
    F.conv2d: Capture._linear,
    last_map: Capture._last_map,
    **dict.fromkeys((Tensor.matmul, torch.matmul), Capture._matmul),
    **dict.fromkeys((Tensor.softmax, torch.softmax, F.softmax), Capture._softmax),
    **dict.fromkeys((Tensor.add, torch.add), Capture._add),
    **dict.fromkeys((Tensor.mul, torch.mul), Capture._mul),
    Tensor.view: Capture._view,
    Tensor.__setitem__: Capture._written_into,
    **dict.fromkeys((Tensor.float, Tensor.to, Tensor.type_as), Capture._cast),
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
