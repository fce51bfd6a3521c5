"""Updates that follow one another fast reach the page together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gradio as gr

Updates = dict[Any, Any]
"""Widget → its update; widgets that are not in it stay as they are."""

GAP = 0.15
"""Seconds between two answers. Each costs the page as much to take as a map may take to make."""


def gathered(stream: Iterable[Updates], wanted: Callable[[], bool]) -> Iterator[Updates]:
    """The first update at once, then those of every `GAP` seconds as one, and the rest at the end.

    What waits is told when the next update comes, be it empty: the stream shall not pause long
    without one. It is never told once it is not ``wanted``: it would replace what is newer.
    """
    waiting: Updates = {}
    told = float("-inf")
    for updates in stream:
        waiting = joined(waiting, updates)
        if waiting and time.monotonic() - told >= GAP:
            if not wanted():
                return
            yield waiting
            waiting, told = {}, time.monotonic()
    if waiting and wanted():
        yield waiting


def joined(before: Updates, after: Updates) -> Updates:
    """Two updates as one: of what both change, the later holds."""
    return {**before, **{at: _later(before.get(at), new) for at, new in after.items()}}


def _later(old: Any, new: Any) -> Any:
    """A widget's update after another one. What only one of them sets, stays set."""
    if old is None or not (_partial(old) or _partial(new)):
        return new
    return {**_as_partial(old), **_as_partial(new)}


def _as_partial(update: Any) -> dict[str, Any]:
    """A plain value sets nothing but the value."""
    return update if _partial(update) else gr.update(value=update)


def _partial(update: Any) -> bool:
    """Whether it is one of `gr.update`, which leaves alone what it does not name."""
    return isinstance(update, dict) and update.get("__type__") == "update"
