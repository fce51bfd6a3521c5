"""Two sanity checks of a method on a model: does its map depend on the class, on the weights?

Adebayo et al., Sanity Checks for Saliency Maps, NeurIPS 2018, arXiv 1810.03292 (cascading
randomisation of the weights, Spearman's rank correlation with the original map).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from explainers.heatmap import HeatMap
from explainers.measures.cascade import cascade
from explainers.measures.orders import patch_values
from explainers.methods.explain import explain
from explainers.methods.ranks import spearman
from explainers.methods.scoring import Progress
from explainers.models.vision_model import VisionModel
from explainers.registry import find_method
from explainers.sentence import Sentence
from explainers.trace import Trace

SAME, ALIKE = 0.99, 0.8
"""Rank correlations from which a map does not, or hardly, depend on what was changed."""

QUICK = 20
"""Forward passes up to which a method's map is made after every single block."""

FEW = 4
"""Stages of the randomisation for a slower method: after each quarter of the blocks."""

_TICKS = 100  # of progress for each map


@dataclass(frozen=True)
class Sanity:
    """Rank correlations (−1..1) with the original map, mean over the photos.

    other_class: of the map for another class; None for a model without classes. weights:
    (blocks randomised, from the top, correlation), the last with all blocks randomised.
    """

    method: str
    photos: int
    other_class: float | None
    weights: tuple[tuple[int, float], ...]

    @property
    def class_verdict(self) -> Sentence | None:
        """Whether the map depends on the class."""
        if self.other_class is None:
            return None
        value = f"{self.other_class:.2f}"
        if self.other_class >= SAME:
            return Sentence(
                "sanity_class_same",
                "This map does not depend on the class (rank correlation with another class's "
                "map: {value}).",
                value=value,
            )
        if self.other_class >= ALIKE:
            return Sentence(
                "sanity_class_alike",
                "This map hardly depends on the class (rank correlation with another class's "
                "map: {value}).",
                value=value,
            )
        return Sentence(
            "sanity_class_differs",
            "This map depends on the class (rank correlation with another class's map: {value}).",
            value=value,
        )

    @property
    def weights_verdict(self) -> Sentence:
        """Whether the map depends on what the blocks learned."""
        value = f"{self.weights[-1][1]:.2f}"
        if self.weights[-1][1] >= SAME:
            return Sentence(
                "sanity_weights_same",
                "This map does not depend on the weights (rank correlation after randomising "
                "all blocks: {value}); it would look the same for a model that learned nothing.",
                value=value,
            )
        if self.weights[-1][1] >= ALIKE:
            return Sentence(
                "sanity_weights_alike",
                "This map hardly depends on the weights (rank correlation after randomising all "
                "blocks: {value}).",
                value=value,
            )
        return Sentence(
            "sanity_weights_differ",
            "This map depends on the weights (rank correlation after randomising all blocks: "
            "{value}).",
            value=value,
        )


_FOUND: WeakKeyDictionary[VisionModel, dict[tuple[object, ...], Sanity]] = WeakKeyDictionary()
"""Model → (method, settings, photos) → result; gone with the model."""


def sanity(
    name: str,
    traces: Trace | Sequence[Trace],
    progress: Progress | None = None,
    **parameters: Any,
) -> Sanity:
    """Both checks of a method on a model, over one traced photo or several of that model.

    Each photo's top class is held against the class in the middle of the model's ranking. The
    blocks are randomised on a private copy. Computed once for a model, a method, its settings
    and these photos. progress may raise `Cancelled`. Raises as `explain` does, and ModelError
    for a method that answers in colours.
    """
    traces = [traces] if isinstance(traces, Trace) else list(traces)
    model = traces[0].model
    photos = tuple(trace.photo.sha256 for trace in traces)
    key = (name, repr(sorted(parameters.items())), photos)
    known = _FOUND.setdefault(model, {})
    if key not in known:
        known[key] = _check(name, traces, progress or _quiet, parameters)
    return known[key]


def _check(
    name: str, traces: Sequence[Trace], progress: Progress, parameters: dict[str, Any]
) -> Sanity:
    model, method = traces[0].model, find_method(name)
    cost = method.cost({**method.defaults, **parameters}, traces[0].grid[0] * traces[0].grid[1])
    stages = model.adapter.depth if cost <= QUICK else min(FEW, model.adapter.depth)
    classes = [_two_classes(trace) for trace in traces]
    total = len(traces) * (stages + 1 + bool(model.classes)) * _TICKS
    ticks = 0

    def values(trace: Trace, target: int | None) -> np.ndarray:
        nonlocal ticks
        heat = explain(name, trace, target, None, _part(progress, ticks, total), **parameters)
        ticks += _TICKS
        return patch_values(cast(HeatMap, heat))

    first = [values(trace, top) for trace, (top, _) in zip(traces, classes, strict=True)]
    other = None
    if model.classes:
        second = [values(trace, rival) for trace, (_, rival) in zip(traces, classes, strict=True)]
        other = _mean(first, second)
    weights = []
    for blocks, private in cascade(model, stages):
        again = [private.trace(trace.photo) for trace in traces]
        found = [values(trace, top) for trace, (top, _) in zip(again, classes, strict=True)]
        weights.append((blocks, _mean(first, found)))
    progress(total, total)
    return Sanity(name, len(traces), other, tuple(weights))


def _two_classes(trace: Trace) -> tuple[int | None, int | None]:
    """The photo's top class and the one in the middle of the ranking, far from both its ends."""
    if trace.logits is None:
        return None, None
    ranking = trace.logits[0].argsort(descending=True, stable=True).tolist()
    return ranking[0], ranking[max(1, len(ranking) // 2)] if len(ranking) > 1 else ranking[0]


def _mean(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> float:
    return float(np.mean([spearman(a, b) for a, b in zip(first, second, strict=True)]))


def _part(progress: Progress, ticks: int, total: int) -> Callable[[int, int], None]:
    """Progress of one map as part of all."""

    def report(done: int, of: int) -> None:
        progress(ticks + _TICKS * done // max(of, 1), total)

    return report


def _quiet(done: int, total: int) -> None:
    """No one is watching."""
