"""One token's attention through all blocks: the numbers of a run, and its moving picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from app.attention_data import DECISION, Look
from explainers import HeatMap, explain
from explainers.render.animation import animation_bytes, frames
from explainers.render.overlay import widest
from explainers.trace import Trace

SCALE = "one colour scale for all blocks"

WIDTH, HEIGHT = 560, 700
"""Pixels of a moving picture at most."""


def run(found: Look, token: int, head: int | str, who: bool) -> np.ndarray:
    """What ``token`` looks at in each block, or with ``who`` what looks at it: (blocks, N) float32.

    head: its number, "mean", or "rolled" from each block down to the photo. token: DECISION for
    what decides where that is no single token. The caller has checked that there is all this.
    """
    rows = np.stack([_row(found, block, token, head, who) for block in range(found.trace.depth)])
    return rows.astype(np.float32)


def limit(found: Look, rows: np.ndarray) -> float:
    """The top of the scale that all maps of a run share: the largest value on a patch."""
    return float(rows[:, found.trace.prefix :].max())


def film(found: Look, token: int, head: int | str, who: bool, kind: Any) -> bytes:
    """The run as a GIF, WebP or MP4: a frame a block, on one scale. ValueError for another kind."""
    rows = run(found, token, head, who)
    heats = maps(found, rows)
    photo = found.trace.photo
    width = max(1, min(WIDTH, widest(photo), round(HEIGHT * photo.width / photo.height)))
    what = captions(found.trace, token, head, who)
    top = limit(found, rows)
    return animation_bytes(frames(heats, list(what), width, top or None), kind)


def maps(found: Look, rows: np.ndarray) -> list[HeatMap]:
    """The rows of a run over the patches of the photo."""
    trace = found.trace
    like = cast(HeatMap, explain("attention", trace, row=0))
    return [replace(like, values=row[trace.prefix :].reshape(trace.grid)) for row in rows]


def captions(trace: Trace, token: int, head: int | str, who: bool) -> Iterator[str]:
    """What stands under each frame, in English as in all pictures."""
    names = trace.model.adapter.prefix_names
    if token == DECISION:
        name = "what decides"
    elif token < trace.prefix:
        name = names[token]
    else:
        row, column = divmod(token - trace.prefix, trace.grid[1])
        name = f"the patch in row {row + 1}, column {column + 1}"
    query = f"who looks at {name}" if who else f"where {name} looks"
    last = trace.depth - 1
    for block in range(trace.depth):
        if head == "rolled":
            yield f"block {block} of 0\u2026{last}, rolled out down to the photo: {query}; {SCALE}"
        else:
            part = "mean of the heads" if head == "mean" else f"head {head}"
            yield f"block {block} of 0\u2026{last}, {part}: {query}; {SCALE}"


def _row(found: Look, block: int, token: int, head: int | str, who: bool) -> np.ndarray:
    """(N,) of one block."""
    trace = found.trace
    if head == "rolled":
        if token == DECISION:
            return cast(np.ndarray, found.rolled_decision)[block]
        matrix = cast(np.ndarray, found.rolled)[block]
        return matrix[:, token] if who else matrix[token]
    number = head if isinstance(head, int) else None
    if who:
        return _numbers(column(trace, block, token, number))
    if token == DECISION:
        weights = trace.decision_row()
        total = torch.zeros_like(weights)
        for rows, (heads,) in trace.calls[block].chunks(weights.nonzero().flatten(), number):
            total += weights[rows] @ heads.mean(0).to(weights.dtype)
        return _numbers(total)
    one = trace.attention(block, number, rows=[token])
    return _numbers(one[0] if number is not None else one[:, 0].mean(0))


def column(trace: Trace, block: int, token: int, head: int | None = None) -> Tensor:
    """What every token gives to one, in a head or in the mean of all: (N,)."""
    every = torch.arange(trace.tokens, device=trace.pixels.device)
    parts = [a[:, :, token].mean(0) for _, (a,) in trace.calls[block].chunks(every, head)]
    return torch.cat(parts)


def _numbers(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()
