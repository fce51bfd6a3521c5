"""Measuring maps: computed once, stopped and gone on with, told in sentences, or refused."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from explainers import Cancelled, HeatMap, ModelError, explain, wrap_model
from explainers.measures import Measure, measure
from explainers.trace import Trace
from tests.measured import PHOTO, heat_of, linear, passes, traced
from tests.module_state import state
from tests.tiny import tiny_vit


def test_what_maps_share_is_computed_once_and_only_when_asked(passes: list[int]) -> None:
    trace = traced()
    first, second = (heat_of(trace, np.random.default_rng(i).random((4, 4))) for i in (0, 1))
    said = []
    for heat, kind, full, cost in (
        (first, "deletion", False, 15 + 10 + 1),
        (second, "deletion", False, 15),
        (second, "deletion", True, 15 + 150 + 15),
        (first, "deletion", True, 15),
        (first, "insertion", False, 15 + 10),
        (first, "insertion", True, 15 + 15),
    ):
        passes.clear()
        ticks: list[tuple[int, int]] = []
        found = measure(
            heat,
            trace,
            kind,
            full=full,
            progress=lambda *tick, ticks=ticks: ticks.append(tick),  # type: ignore[misc]
        )
        assert sum(passes) == cost
        assert max(passes) <= 8
        assert {total for _, total in ticks} == {cost}
        assert [done for done, _ in ticks] == sorted(done for done, _ in ticks)
        assert ticks[-1] == (cost, cost)
        said.append((found.sentence, found.area))
    assert said[0] == said[3]


def test_a_measure_can_be_stopped_and_goes_on(passes: list[int]) -> None:
    trace = traced()
    heat = heat_of(trace, np.random.default_rng(0).random((4, 4)))
    before = state(trace.model.module)

    def stop(done: int, total: int) -> None:
        if done >= 60:
            raise Cancelled

    with pytest.raises(Cancelled):
        measure(heat, trace, full=True, progress=stop)
    assert state(trace.model.module) == before
    passes.clear()
    again = measure(heat, trace, full=True)
    assert sum(passes) < 191
    fresh = measure(heat, trace.model.trace(PHOTO), full=True)
    assert again.comparison == fresh.comparison
    assert again.random_area == fresh.random_area
    assert state(trace.model.module) == before


def test_references_go_with_their_trace() -> None:
    trace = traced()
    measure(heat_of(trace, np.eye(4)), trace)
    gone = weakref.ref(trace)
    del trace
    gc.collect()
    assert gone() is None


def test_threads_measure_alike() -> None:
    serial, shared = traced(dtype=torch.float32), traced(dtype=torch.float32)
    maps = [np.random.default_rng(i).random((4, 4)) for i in range(16)]

    def run(trace: Trace, values: np.ndarray) -> tuple[float, tuple[float, float]]:
        found = measure(heat_of(trace, values), trace, full=True)
        return found.area, found.random_area

    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(lambda values: run(shared, values), maps))
    assert parallel == [run(serial, values) for values in maps]


def test_sentences_say_what_happened() -> None:
    trace = linear()
    right = heat_of(trace, np.array([[1.0, 2], [3, 4]]))
    found = measure(right, trace, target=0, full=True)
    assert found.sentence == (
        f"Removing the top 75 % drops class 0 from 1.00 to 0.10; random order: "
        f"{found.random_marks.mean():.2f}."
    )
    assert found.comparison.startswith("Deletion 0.375 (lower is better); random orders 0.")
    found = measure(right, trace, "insertion", target=0, full=True)
    assert found.sentence.startswith("The top 75 % alone give class 0 0.90, the whole photo 1.00;")
    assert found.comparison.startswith("Insertion 0.625 (higher is better); random orders 0.")
    other = measure(right, trace, target=1)
    assert other.sentence.startswith("Removing the top 75 % does not lower class 1 but raises it")
    assert "from <0.01 to 0.90" in other.sentence
    with pytest.raises(ValueError, match="full=True"):
        _ = other.comparison


def test_one_step_is_told_where_there_are_few_patches() -> None:
    trace = traced(size=(4, 4))
    found = measure(heat_of(trace, np.ones((1, 1))), trace)
    assert isinstance(found, Measure)
    assert found.sentence.values["share"] == 100


def test_the_maps_own_class_is_watched_or_the_top_one() -> None:
    trace = traced()
    top = trace.top(1)[0][0]
    for target in range(5):
        heat = explain("saliency", trace, target)
        assert isinstance(heat, HeatMap)
        assert measure(heat, trace).target.index == target
    rollout = explain("rollout", trace)
    assert isinstance(rollout, HeatMap)
    assert measure(rollout, trace).target.index == top
    assert measure(rollout, trace, target="teapot").target.label == "teapot"


def test_refusals() -> None:
    trace = traced()
    with pytest.raises(ModelError, match="shows colours"):
        measure(heat_of(trace, np.zeros((4, 4, 3)), "rgb"), trace)
    headless = wrap_model(tiny_vit(num_classes=0)).trace(PHOTO)
    with pytest.raises(ModelError, match="no classification head"):
        measure(heat_of(headless, np.eye(4)), headless)
