"""`nn.MultiheadAttention` from the inside: the q, k, v and mask that it hides."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.models.errors import ModelError
from explainers.sentence import Sentence

_SIGNATURE = inspect.signature(F.multi_head_attention_forward)


@dataclass(frozen=True)
class MultiHead:
    """q, k, v: (B, H, N, D); mask as `F.scaled_dot_product_attention` takes it."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    weight: Tensor
    bias: Tensor | None


def read_multi_head(args: Any, kwargs: Any) -> MultiHead:
    """The projections of one call of `F.multi_head_attention_forward`.

    weight and bias are its output projection's. ModelError for the options that change what
    its attention is.
    """
    bound = _SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    p = bound.arguments
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
    return MultiHead(q, k, v, mask, p["out_proj_weight"], p["out_proj_bias"])
