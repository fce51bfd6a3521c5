"""What the Attention tab shows of one photo and model: made once, kept in the store."""

from __future__ import annotations

import io
import secrets
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from app.keys import trace_bytes
from explainers.models.errors import ModelError
from explainers.render.animation import kinds
from explainers.render.describe import EVEN
from explainers.trace import Trace
from explainers.views.heads import HeadFigures, head_figures

WHOLE = 2_000_000
"""Bytes of a block's rows up to which they travel to the page at once."""

ROLLED_TOKENS = 1500
"""Tokens up to which every token's rollout is kept: one N×N matrix a block, 4.5 MB at this size."""

PICTURE = 1200
"""Pixels of the longer side of the photo under the map."""

DECISION = -1
"""In a token's place: the row the model decides by, where that is no single token."""


@dataclass(frozen=True, eq=False)
class Look:
    """Everything made once for a photo and a model.

    key: what the page asks with, not to be guessed. start: the token that decides, or DECISION.
    decision: rows (blocks, heads, N) float16 of what decides, None where nothing does.
    rolled: (blocks, N, N) float16, row i of block b: token i's attention rolled out from block b
    down to the patches; None above `ROLLED_TOKENS`. rolled_decision: (blocks, N) float16.
    picture: the photo as JPEG.
    """

    trace: Trace
    start: int
    decision: np.ndarray | None
    rolled: np.ndarray | None
    rolled_decision: np.ndarray | None
    figures: HeadFigures
    picture: bytes
    key: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    heavy: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def nbytes(self) -> int:
        """About what it holds, the trace included."""
        arrays = (self.decision, self.rolled, self.rolled_decision)
        own = sum(array.nbytes for array in arrays if array is not None)
        return own + trace_bytes(self.trace) + len(self.picture)

    @property
    def whole(self) -> bool:
        """Whether a block's rows travel at once."""
        planes = self.trace.heads + (self.rolled is not None)
        return 2 * planes * self.trace.tokens**2 <= WHOLE

    def facts(self) -> dict[str, Any]:
        """What the page must know before it asks for numbers; plain JSON, small."""
        trace = self.trace
        geometry, (rows, columns) = trace.geometry, trace.grid
        height, width = trace.model.adapter.patch
        left, top = geometry.input_to_photo(0, 0)
        right, bottom = geometry.input_to_photo(columns * width, rows * height)
        return {
            "key": self.key,
            "grid": [rows, columns],
            "prefix": list(trace.model.adapter.prefix_names),
            "blocks": trace.depth,
            "heads": trace.heads,
            "photo": [trace.photo.height, trace.photo.width],
            "frame": [float(left), float(top), float(right), float(bottom)],
            "start": self.start,
            "decides": self.decision is not None,
            "rolled": self.rolled is not None,
            "rolled_most": ROLLED_TOKENS,
            "whole": self.whole,
            "distance": np.round(self.figures.distance, 2).tolist(),
            "entropy": np.round(self.figures.entropy, 4).tolist(),
            "even": EVEN,
            "films": list(kinds()),
        }


@torch.no_grad()
def look(trace: Trace) -> Look:
    """Make everything that takes time. ModelError where the model's attention cannot be read."""
    one = trace.model.adapter.one_grid_support()
    support = trace.model.supports("attention", row=0) if one else one
    if not support:
        raise ModelError(support.reason)
    start, weights = _start(trace)
    rolled = _rolled(trace) if trace.tokens <= ROLLED_TOKENS else None
    decision = rolled_decision = None
    if weights is not None:
        decision = np.stack([half(_weighted(trace, b, weights)) for b in range(trace.depth)])
        if rolled is not None:
            shares = weights.cpu().numpy().astype(np.float32)
            rolled_decision = (shares @ rolled.astype(np.float32)).astype("<f2")
    return Look(
        trace, start, decision, rolled, rolled_decision, head_figures(trace), _picture(trace)
    )


def half(values: Tensor) -> np.ndarray:
    """As little-endian float16, the way numbers travel."""
    return values.to("cpu", torch.float16).numpy().astype("<f2", copy=False)


def _start(trace: Trace) -> tuple[int, Tensor | None]:
    """The token asked about first, and the weights (N,) of the rows that decide, if any do."""
    rows, columns = trace.grid
    try:
        weights = trace.decision_row()
    except ModelError:
        return trace.prefix + rows // 2 * columns + columns // 2, None
    some = weights.nonzero().flatten().tolist()
    return (some[0] if len(some) == 1 else DECISION), weights


def _weighted(trace: Trace, block: int, weights: Tensor) -> Tensor:
    """The weighted mean of rows, for each head: (heads, N)."""
    total = torch.zeros(trace.heads, trace.tokens, dtype=weights.dtype, device=trace.pixels.device)
    for rows, (heads,) in trace.calls[block].chunks(weights.nonzero().flatten()):
        total += torch.einsum("r,hrn->hn", weights[rows], heads.to(weights.dtype))
    return total


def _rolled(trace: Trace) -> np.ndarray:
    """Π (Ā_l + I)/2 over the blocks up to each one: (blocks, N, N), every row sums to 1."""
    found = []
    above: Tensor | None = None
    for block in range(trace.depth):
        mixed = trace.attention(block).mean(0)
        mixed = (mixed / mixed.sum(1, keepdim=True)).float()
        mixed.diagonal().add_(1)
        mixed /= 2
        above = mixed if above is None else mixed @ above
        found.append(half(above))
    return np.stack(found)


def _picture(trace: Trace) -> bytes:
    image = trace.photo.to_pil()
    image.thumbnail((PICTURE, PICTURE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=88)
    return buffer.getvalue()
