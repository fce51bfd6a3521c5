"""`measure`: a map's deletion or insertion curve, beside random orders and the photo's centre."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from explainers.heatmap import HeatMap, Target
from explainers.measures.curves import MARK, Curve, Kind, probabilities, step_counts, visible
from explainers.measures.orders import best_first, centre_first, patch_values, random_order
from explainers.methods.explain import find_target
from explainers.methods.scoring import Progress
from explainers.models.labels import short
from explainers.sentence import Sentence
from explainers.trace import Trace, demand_trace

RANDOM_ORDERS = 10


@dataclass(frozen=True, eq=False)
class Measure:
    """How the class's probability follows a map's order of patches.

    random_marks: (10,) the random orders' probabilities at the step that `sentence` tells of.
    random: the random orders' curves, and centre: that of the patches in the photo's middle
    first; none of them where only the sentence was asked for.
    """

    kind: Kind
    target: Target
    curve: Curve
    random_marks: np.ndarray
    random: tuple[Curve, ...] = ()
    centre: Curve | None = None

    @property
    def area(self) -> float:
        """Area under the map's curve: low is good for deletion, high for insertion."""
        return self.curve.area

    @property
    def random_area(self) -> tuple[float, float]:
        """Mean and standard deviation of the random orders' areas."""
        return _spread(np.array([curve.area for curve in self.random]))

    @property
    def sentence(self) -> Sentence:
        """What happens at about a fifth of the patches, in one line."""
        step = min(MARK, len(self.curve.values) - 1)
        before, after = (float(self.curve.values[i]) for i in (0, step))
        values = {
            "share": round(100 * float(self.curve.shares[step])),
            "label": short(self.target.label),
            "after": _said(after),
            "random": _said(float(self.random_marks.mean())),
        }
        if self.kind == "insertion":
            return Sentence(
                "measure_insertion",
                "The top {share} % alone give {label} {after}, the whole photo {before}; "
                "random order: {random}.",
                before=_said(float(self.curve.values[-1])),
                **values,
            )
        if _said(after) == _said(before):
            return Sentence(
                "measure_deletion_same",
                "Removing the top {share} % leaves {label} at {after}; random order: {random}.",
                **values,
            )
        if after > before:
            return Sentence(
                "measure_deletion_rise",
                "Removing the top {share} % does not lower {label} but raises it from {before} "
                "to {after}; random order: {random}.",
                before=_said(before),
                **values,
            )
        return Sentence(
            "measure_deletion",
            "Removing the top {share} % drops {label} from {before} to {after}; "
            "random order: {random}.",
            before=_said(before),
            **values,
        )

    @property
    def comparison(self) -> Sentence:
        """The areas side by side; only of a full measure."""
        if self.centre is None:
            raise ValueError("the areas of random orders were not computed; measure with full=True")
        mean, deviation = self.random_area
        values = {
            "area": f"{self.area:.3f}",
            "mean": f"{mean:.3f}",
            "deviation": f"{deviation:.3f}",
            "centre": f"{self.centre.area:.3f}",
        }
        if self.kind == "deletion":
            return Sentence(
                "measure_deletion_area",
                "Deletion {area} (lower is better); random orders {mean} ± {deviation}; centre "
                "of the photo first {centre}.",
                **values,
            )
        return Sentence(
            "measure_insertion_area",
            "Insertion {area} (higher is better); random orders {mean} ± {deviation}; centre of "
            "the photo first {centre}.",
            **values,
        )


_REFERENCES: WeakKeyDictionary[Trace, dict[int, dict[Hashable, np.ndarray]]] = WeakKeyDictionary()
"""Trace → target → what the curves of all its maps share; gone with the trace."""

_LOCK = threading.Lock()


def _demand_map(heat: Any, trace: Trace) -> None:
    if not isinstance(heat, HeatMap):
        raise TypeError(
            Sentence(
                "measure_map",
                "One HeatMap was expected, and {kind} came; make it with explain first.",
                kind=type(heat).__name__,
            )
        )
    if heat.photo.sha256 != trace.photo.sha256:
        raise ValueError(
            Sentence(
                "measure_photo",
                "The map is of {map}, and the trace of {photo}; give the trace that the map was "
                "made from.",
                map=heat.photo.name,
                photo=trace.photo.name,
            )
        )


def measure(
    heat: HeatMap,
    trace: Trace,
    kind: Kind = "deletion",
    *,
    target: int | str | None = None,
    full: bool = False,
    progress: Progress | None = None,
) -> Measure:
    """Delete (insert) the patches of a traced photo in the order of its map, best first.

    A hidden patch gets the photo's mean colour. target: the class watched, by default the
    map's own, or the photo's top class. Costs 26 forward passes, and for the next maps of this
    trace and class 15; full=True adds 140 for the random orders, once for all maps and both
    kinds, and 15 for the centre. progress may raise `Cancelled`; finished parts are kept.
    Raises ModelError for a model without classes and for a map of colours, ValueError for a
    map of another photo.
    """
    demand_trace(trace)
    _demand_map(heat, trace)
    if target is None and heat.target is not None:
        target = heat.target.index
    aim = find_target(trace, target)
    order = best_first(patch_values(heat))
    counts = step_counts(order.size, kind)
    work: dict[Hashable, np.ndarray] = {"blank": np.zeros((1, order.size), bool)}
    work["marks", kind] = np.concatenate(
        [_reference(i, order.size, kind)[_mark(counts)][None] for i in range(RANDOM_ORDERS)]
    )
    if full:
        for i in range(RANDOM_ORDERS):  # read backwards, they are the insertions
            work["random", i] = _reference(i, order.size, "deletion")[1:-1]
        middle = centre_first(trace.grid, trace.model.adapter.patch)
        work["centre", kind] = visible(middle, counts, kind)[1:-1]
    with _LOCK:
        known = _REFERENCES.setdefault(trace, {}).setdefault(aim.index, {})
    own = visible(order, counts, kind)[1:-1]
    todo = {key: shown for key, shown in work.items() if key not in known}
    done, total = 0, len(own) + sum(map(len, todo.values()))
    report = progress or _quiet
    values = probabilities(trace, aim.index, own, report, done, total)
    done += len(own)
    for key, shown in todo.items():
        known[key] = probabilities(trace, aim.index, shown, report, done, total)
        done += len(shown)
    ends = np.array([aim.probability, *known["blank"]])

    def curve(inside: np.ndarray, of: Kind) -> Curve:
        first, last = ends if of == "deletion" else ends[::-1]
        steps = step_counts(order.size, of)
        return Curve(steps / order.size, np.array([first, *inside, last]))

    found = Measure(kind, aim, curve(values, kind), known["marks", kind])
    if not full:
        return found
    random = tuple(curve(known["random", i], "deletion") for i in range(RANDOM_ORDERS))
    if kind == "insertion":
        random = tuple(each.backwards() for each in random)
    return Measure(
        kind, aim, found.curve, found.random_marks, random, curve(known["centre", kind], kind)
    )


def _reference(number: int, patches: int, kind: Kind) -> np.ndarray:
    """What shows at each step of a random order; inserting it is deleting its reverse."""
    order = random_order(patches, number)
    return visible(order if kind == "deletion" else order[::-1], step_counts(patches, kind), kind)


def _mark(counts: np.ndarray) -> int:
    return min(MARK, len(counts) - 1)


def _spread(areas: np.ndarray) -> tuple[float, float]:
    return float(areas.mean()), float(areas.std(ddof=1))


def _said(probability: float) -> str:
    return f"{probability:.2f}" if probability >= 0.005 else "<0.01"


def _quiet(done: int, total: int) -> None:
    """No one is watching."""
