"""The Attention tab's questions to the server: numbers looked up by key, no model run."""

from __future__ import annotations

import base64
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import torch

from app import attention_run
from app.attention_data import DECISION, WHOLE, Look, half
from app.studio import Studio
from explainers.render.colours import UNSIGNED, colour_table

KEYS = 400
"""Keys known at once, for all visitors; the oldest beyond that are said to be expired."""

Answer = dict[str, Any]


class Looks:
    """Finds a visitor's `Look` again by its key, and answers the page's questions about it.

    The answers are plain JSON; numbers are base64 of little-endian float16. Anybody may post
    anything here, so every field is checked; nothing here runs a model.
    """

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self._places: OrderedDict[str, tuple[str, Hashable]] = OrderedDict()
        self._turns: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def next_turn(self, owner: str) -> int:
        """Begin a visitor's new request, which makes the earlier ones outdated."""
        with self._lock:
            turn = self._turns.pop(owner, 0) + 1
            self._turns[owner] = turn
            while len(self._turns) > KEYS:
                self._turns.popitem(last=False)
            return turn

    def turn(self, owner: str) -> int:
        """The visitor's latest request."""
        with self._lock:
            return self._turns.get(owner, 0)

    def known(self, owner: str, name: Hashable) -> Look | None:
        """A visitor's look that is remembered under ``name`` and can still be asked by its key."""
        found: Look | None = self.studio.store.get(owner, name)
        return found if found is not None and self.find(found.key) is not None else None

    def put(self, owner: str, name: Hashable, found: Look) -> None:
        """Remember a visitor's look under ``name``, to be found by its key too."""
        self.studio.store.put(owner, name, found, found.nbytes)
        with self._lock:
            self._places[found.key] = owner, name
            while len(self._places) > KEYS:
                self._places.popitem(last=False)

    def find(self, key: object) -> Look | None:
        """The look of a key; None when it is unknown or no longer remembered."""
        with self._lock:
            place = self._places.get(key) if isinstance(key, str) else None
        found: Look | None = None if place is None else self.studio.store.get(*place)
        return found if found is not None and found.key == key else None

    def functions(self) -> list[Callable[[Any], Answer]]:
        """What the page may call, by these names."""

        def attention_photo(asked: Any) -> Answer:
            return self._answer(asked, photo)

        def attention_grid(asked: Any) -> Answer:
            return self._answer(asked, grid)

        def attention_block(asked: Any) -> Answer:
            return self._answer(asked, block)

        def attention_token(asked: Any) -> Answer:
            return self._answer(asked, token)

        def attention_blocks(asked: Any) -> Answer:
            return self._answer(asked, whole_run)

        rows = [attention_grid, attention_block, attention_token, attention_blocks]
        return [attention_photo, *rows]

    def _answer(self, asked: Any, part: Callable[[Look, dict[str, Any]], Answer]) -> Answer:
        if not isinstance(asked, dict):
            return {"ok": False, "error": "wrong"}
        found = self.find(asked.get("key"))
        if found is None:
            return {"ok": False, "error": "expired"}
        try:
            with torch.no_grad():
                return {"ok": True, **part(found, asked)}
        except _Wrong:
            return {"ok": False, "error": "wrong"}
        except _Busy:
            return {"ok": False, "error": "busy"}


class _Wrong(Exception):  # noqa: N818 - told to the page, not raised at anybody
    """A field of a question is not what it must be."""


class _Busy(Exception):  # noqa: N818
    """This visitor's last such question is still being answered."""


def photo(found: Look, asked: dict[str, Any]) -> Answer:
    """The photo as base64 JPEG, and the colours from lowest to highest (255 × [r, g, b])."""
    return {
        "picture": base64.b64encode(found.picture).decode(),
        "colours": colour_table(UNSIGNED[0]).tolist(),
    }


def grid(found: Look, asked: dict[str, Any]) -> Answer:
    """One token's rows in the blocks ``first`` … ``last`` and all heads: (blocks, heads, N)."""
    trace = found.trace
    first = _whole(asked, "first", trace.depth)
    last = _whole(asked, "last", trace.depth)
    if last < first or 2 * (last - first + 1) * trace.heads * trace.tokens > max(
        WHOLE, 2 * trace.heads * trace.tokens
    ):
        raise _Wrong
    if asked.get("token") == DECISION and found.decision is not None:
        return {"data": _packed(found.decision[first : last + 1])}
    row = _whole(asked, "token", trace.tokens)
    rows = [half(trace.attention(b, rows=[row])[:, 0]) for b in range(first, last + 1)]
    return {"data": _packed(np.stack(rows))}


def block(found: Look, asked: dict[str, Any]) -> Answer:
    """All rows of a block: (heads, then the rollout where there is one; N, N)."""
    if not found.whole:
        raise _Wrong
    number = _whole(asked, "block", found.trace.depth)
    planes = half(found.trace.attention(number))
    if found.rolled is not None:
        planes = np.concatenate([planes, found.rolled[number][None]])
    return {"data": _packed(planes), **_deciding(found, number)}


def token(found: Look, asked: dict[str, Any]) -> Answer:
    """One token's row in a block, or with ``who`` its column: (heads, then the rollout; N).

    For photos of so many patches that a block's rows would be too much at once.
    """
    number = _whole(asked, "block", found.trace.depth)
    row = _whole(asked, "token", found.trace.tokens)
    if not asked.get("who"):
        planes = half(found.trace.attention(number, rows=[row])[:, 0])
        more = None if found.rolled is None else found.rolled[number][row]
    else:
        planes = _column(found, number, row)
        more = None if found.rolled is None else found.rolled[number][:, row]
    if more is not None:
        planes = np.concatenate([planes, more[None]])
    return {"data": _packed(planes), **_deciding(found, number)}


def whole_run(found: Look, asked: dict[str, Any]) -> Answer:
    """A token's rows, or with ``who`` its columns, in all blocks: (blocks, N); and their limit."""
    wanted = wish(found, asked)
    if wanted is None:
        raise _Wrong
    if not found.heavy.acquire(blocking=False):
        raise _Busy
    try:
        rows = attention_run.run(found, *wanted)
    finally:
        found.heavy.release()
    top = attention_run.limit(found, rows)
    return {"data": _packed(rows.astype("<f2")), "limit": top}


def wish(found: Look, asked: dict[str, Any]) -> tuple[int, int | str, bool] | None:
    """The token, the head and the direction of a run; None where there is no such run."""
    head, who = asked.get("head"), bool(asked.get("who"))
    try:
        if head == "rolled":
            if found.rolled is None:
                return None
        elif head != "mean":
            head = _whole(asked, "head", found.trace.heads)
        if asked.get("token") != DECISION:
            return _whole(asked, "token", found.trace.tokens), head, who
    except _Wrong:
        return None
    return None if who or found.decision is None else (DECISION, head, who)


def _deciding(found: Look, number: int) -> Answer:
    """The rollout of what decides in a block, for models where that is no single token."""
    if found.start != DECISION or found.rolled_decision is None:
        return {}
    return {"decision": _packed(found.rolled_decision[number])}


def _column(found: Look, number: int, column: int) -> np.ndarray:
    """What every token gives to one: (heads, N). All rows pass by, one question at a time."""
    if not found.heavy.acquire(blocking=False):
        raise _Busy
    try:
        trace = found.trace
        every = torch.arange(trace.tokens, device=trace.pixels.device)
        pieces = [half(a[:, :, column]) for _, (a,) in trace.calls[number].chunks(every)]
        return np.concatenate(pieces, axis=1)
    finally:
        found.heavy.release()


def _whole(asked: dict[str, Any], name: str, size: int) -> int:
    value = asked.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < size:
        raise _Wrong
    return value


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
