"""One block of a model opened up: every tensor that a photo leaves in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from explainers.attention_call import AttentionCall, exact
from explainers.capture import Capture, stored_as
from explainers.models.adapters import NAMES
from explainers.models.quantised import plain_weight
from explainers.trace import Trace
from explainers.views.passing import watched


@dataclass(frozen=True, eq=False)
class BlockTensors:
    """One block opened up, for one photo. q, k, v: (H, N, D) each; all else (N, width), but
    ``hidden`` (N, MLP width), before the activation. projected: the attention's output layer on
    the merged heads; what the block adds is that, or that times LayerScale. Those that the
    model's design hides are None."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    input: Tensor | None = None
    norm1: Tensor | None = None
    heads: Tensor | None = None
    projected: Tensor | None = None
    middle: Tensor | None = None
    norm2: Tensor | None = None
    hidden: Tensor | None = None
    output: Tensor | None = None


@torch.no_grad()
def opened(trace: Trace, call: AttentionCall, block: int, features: bool) -> BlockTensors:
    """The tensors of a block whose attention is ``call``: of one more pass where the model's
    ``features`` can be read, else of the attention alone."""
    attention = BlockTensors(exact(call.q[0]), exact(call.k[0]), trace.values(block), call.scale)
    if not features:
        return attention
    capture = Capture(trace.model.adapter, keep={*NAMES})
    with capture:
        passing = watched(trace, block)
    kept: dict[str, Any] = {}
    for name in NAMES:
        found = capture.tensors.get(stored_as(name, block, trace.depth))
        if found is not None:  # one photo, whichever side the batch stands on
            kept[name] = found.reshape(-1, found.shape[-1])
    parts, heads = trace.model.adapter.blocks[block], kept.get("heads")
    projection: Any = parts.projection
    fits = heads is not None and heads.shape[-1] == plain_weight(projection).shape[-1]
    projected = projection(heads) if fits else None
    return replace(attention, projected=projected, hidden=passing.hidden, **kept)
