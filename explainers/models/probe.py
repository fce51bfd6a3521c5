"""Watching one pass of an unknown model: which calls are attention, and what stands around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_NORMS = (F.layer_norm, F.rms_norm)
_SUMS = (Tensor.add, torch.add)
_PRODUCTS = (Tensor.matmul, torch.matmul, torch.einsum)
_SOFTMAXES = (Tensor.softmax, torch.softmax, F.softmax)


@dataclass
class Layer:
    """One attention layer: the weights of the parts around it, and its projection's output.

    norm1, norm2: the norms that read the residual stream before it and after it, None where
    no sum carries on what they read (the stream was not seen to pass them by).
    """

    heads: int
    tokens: int
    width: int
    before: int  # norms seen until then
    after: int = 0  # norms seen until its projection has run
    norm1: Tensor | None = None
    norm2: Tensor | None = None
    projection: Tensor | None = None
    output: Tensor | None = None


@dataclass
class _Norm:
    weight: Tensor
    read: Tensor
    passed_by: bool = False  # what it read is a term of a later sum: a residual stream


class Probe(TorchFunctionMode):
    """After the pass, `layers` has one entry for each attention that one linear layer reads."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: list[Layer] = []
        self._weights: Tensor | None = None  # what looks like attention, written out
        self._norms: list[_Norm] = []
        self._open: Layer | None = None  # its projection has not run yet

    @property
    def tokens(self) -> set[int]:
        """How many tokens attended, in each attention that was seen."""
        return {layer.tokens for layer in self._seen}

    @property
    def layers(self) -> list[Layer]:
        """The layers in order, each with the norms around it."""
        found = [layer for layer in self._seen if layer.output is not None]
        for i, layer in enumerate(found):
            start = found[i - 1].after if i else 0
            end = found[i + 1].before - 1 if i + 1 < len(found) else len(self._norms)
            first, second = self._norms[start : layer.before], self._norms[layer.after : end]
            if first and second and first[-1].passed_by and second[0].passed_by:
                layer.norm1, layer.norm2 = first[-1].weight, second[0].weight
        return found

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            self._attended(output)
        elif func is F.multi_head_attention_forward:
            self._multi_head(args, kwargs, output[0])
        elif func is F.linear:
            self._linear(args[0], args[1] if len(args) > 1 else kwargs["weight"], output)
        elif func in _NORMS:
            weight = kwargs.get("weight", args[2] if len(args) > 2 else None)
            if weight is not None and args[0].dim() == 3:  # not one head's q or k
                self._norms.append(_Norm(weight, args[0]))
        elif func in _SOFTMAXES and output.dim() == 4 and output.shape[-1] == output.shape[-2]:
            self._weights = output
        elif func in _PRODUCTS:
            left = args[1] if func is torch.einsum else args[0]
            if self._weights is not None and left.shape == self._weights.shape:
                self._weights = None
                self._attended(output)
        elif func in _SUMS:
            for norm in self._norms:
                norm.passed_by |= any(term is norm.read for term in args)
        return output

    def _attended(self, output: Tensor) -> None:
        """Attention has run: output (B, heads, N, D)."""
        if output.dim() == 4:
            _, heads, tokens, width = output.shape
            self._begin(Layer(heads, tokens, heads * width, len(self._norms)))

    def _multi_head(self, args: Any, kwargs: Any, output: Tensor) -> None:
        given = dict(zip(_MULTI_HEAD, args, strict=False)) | kwargs
        weight = given["out_proj_weight"]
        heads, tokens = given["num_heads"], output.shape[0]
        self._begin(Layer(heads, tokens, weight.shape[1], len(self._norms)))
        self._project(weight, output)

    def _begin(self, layer: Layer) -> None:
        self._seen.append(layer)
        self._open = layer

    def _linear(self, read: Tensor, weight: Tensor, output: Tensor) -> None:
        if self._open is not None and read.dim() == 3 and read.shape[-1] == self._open.width:
            self._project(weight, output)

    def _project(self, weight: Tensor, output: Tensor) -> None:
        if self._open is not None:
            self._open.projection, self._open.output = weight, output
            self._open.after = len(self._norms)
        self._open = None


_MULTI_HEAD = (
    "query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight", "in_proj_bias",
    "bias_k", "bias_v", "add_zero_attn", "dropout_p", "out_proj_weight", "out_proj_bias",
)  # fmt: skip
