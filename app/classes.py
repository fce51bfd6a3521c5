"""The classes of a model as the page names and lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from explainers.models.labels import short
from explainers.models.vision_model import VisionModel
from explainers.trace import Trace

MOST = 3000
"""A menu with more entries is slow in a browser; larger models list their most likely classes."""


def menu(trace: Trace) -> list[tuple[str, int]]:
    """(name, index) of the classes one can choose from, by name: all, or the likeliest 3,000."""
    vit = trace.model
    indices: Sequence[int] = range(vit.classes)
    if trace.probabilities is not None and vit.classes > MOST:
        indices = trace.probabilities[0].topk(MOST).indices.tolist()
    names = _told_apart([vit.label(index) for index in indices], indices)
    return sorted(zip(names, indices, strict=True), key=lambda pair: pair[0].casefold())


def top(trace: Trace, count: int) -> tuple[dict[str, float], list[int]]:
    """The most likely classes: short name → probability, and their indices."""
    best = trace.top(count)
    indices = [index for index, _, _ in best]
    names = _told_apart([short(label) for _, label, _ in best], indices)
    shown = {name: entry[2] for name, entry in zip(names, best, strict=True)}
    return shown, indices


def facts(vit: VisionModel) -> dict[str, object]:
    """What the line under the model menu says of a model."""
    (height, width), adapter = vit.preprocessing.size, vit.adapter
    rows, columns = adapter.grid((height, width))
    return {
        "blocks": adapter.depth,
        "heads": adapter.heads,
        "width": width,
        "height": height,
        "rows": rows,
        "columns": columns,
        "classes": f"{vit.classes:,}",
        "interpolation": vit.preprocessing.interpolation,
    }


def _told_apart(names: Sequence[str], indices: Sequence[int]) -> list[str]:
    """Names, with the class index behind those that occur more than once."""
    often = Counter(names)
    pairs = zip(names, indices, strict=True)
    return [f"{name} ({index})" if often[name] > 1 else name for name, index in pairs]
