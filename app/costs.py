"""What a method costs, told before it runs: forward passes, and seconds on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.texts import FREE, PATCHES, of_method, say
from explainers.measures.sanity import FEW, QUICK
from explainers.registry import Method

MINUTE = 60


def passes(method: Method, parameters: Mapping[str, Any], patches: int = PATCHES) -> float:
    """Forward passes that a method takes with these settings."""
    return method.cost({**method.defaults, **parameters}, patches)


def note(
    lang: str, method: Method, parameters: Mapping[str, Any], patches: int, pace: float | None
) -> str:
    """One line for a card whose map is not there yet; empty for what is there at once.

    pace: seconds of a forward pass, where one has been timed.
    """
    count = passes(method, parameters, patches)
    if count <= FREE:
        return ""
    if pace is None:
        return say(lang, "cost_passes", passes=f"{count:.0f}")
    return say(lang, "cost_time", passes=f"{count:.0f}", time=time_of(lang, count * pace))


def tick(lang: str, method: Method, patches: int, pace: float) -> str:
    """A method's name in the chooser, with its time where it is not there at once."""
    title, count = of_method(lang, method, "title"), passes(method, {}, patches)
    return title if count <= FREE else f"{title} · {time_of(lang, count * pace)}"


def time_of(lang: str, seconds: float) -> str:
    """A duration in words, no more exact than a guess is."""
    if seconds < 1:
        return say(lang, "time_moment")
    if seconds < MINUTE:
        step = 1 if seconds < 10 else 5
        return say(lang, "time_seconds", count=round(seconds / step) * step)
    return say(lang, "time_minutes", count=round(seconds / MINUTE))


def sanity_passes(
    method: Method, parameters: Mapping[str, Any], patches: int, depth: int, classes: bool
) -> float:
    """Forward passes of both sanity checks: a map of another class, one after each stage."""
    count = passes(method, parameters, patches)
    stages = depth if count <= QUICK else min(FEW, depth)
    return (1 + classes) * count + stages * (count + 1)
