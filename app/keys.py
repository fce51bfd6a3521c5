"""What traces and maps are remembered by, and how much a trace takes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from app.scene import Scene
from explainers import Photo, methods
from explainers.trace import Trace


@dataclass(frozen=True)
class MapKey:
    """What a map is made from: equal keys, equal maps."""

    model: str
    photo: str
    method: str
    target: int | None
    against: int | None
    parameters: tuple[tuple[str, Any], ...]


def trace_key(model: str, photo: Photo) -> Hashable:
    """The key of a model's trace of a photo."""
    return "trace", model, photo.sha256


def map_key(
    model: str,
    photo: Photo,
    method: str,
    target: int | None,
    against: int | None,
    parameters: Mapping[str, Any],
) -> MapKey:
    """The key of a map; methods that ignore the class have one map for all classes."""
    if not methods()[method].class_specific:
        target = against = None
    return MapKey(model, photo.sha256, method, target, against, tuple(sorted(parameters.items())))


def aim(trace: Trace, scene: Scene) -> tuple[int | None, int | None]:
    """The class explained and its contrast: chosen, or the likeliest; none without a head.

    Windows have a likeliest class each, so there it is the chosen one or none.
    """
    if not trace.model.classes:
        return None, None
    if scene.look.kind == "windows":
        return scene.target, scene.against
    target = trace.top(1)[0][0] if scene.target is None else scene.target
    return target, None if scene.against == target else scene.against


def trace_bytes(trace: Trace) -> int:
    """About what a trace holds: q and k of each block, once more for the gradients kept."""
    calls = sum(call.nbytes for call in trace.calls)
    return 2 * calls + trace.photo.pixels.nbytes
