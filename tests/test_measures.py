"""Deletion and insertion: closed forms, slow twins, and the order of patches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explainers import HeatMap, explain
from explainers.measures import measure
from explainers.measures.curves import step_counts
from explainers.measures.orders import best_first, centre_first, patch_values, random_order
from explainers.methods.baselines import baseline
from explainers.trace import Trace
from tests.measured import heat_of, linear, traced
from tests.tiny import VARIANTS

CLASSIFIERS = [name for name in VARIANTS if name != "headless"]


@pytest.mark.parametrize(
    ("kind", "values", "area", "curve"),
    [
        ("deletion", (1, 2, 3, 4), 3.75, (10, 6, 3, 1, 0)),
        ("deletion", (4, 3, 2, 1), 6.25, (10, 9, 7, 4, 0)),
        ("insertion", (1, 2, 3, 4), 6.25, (0, 4, 7, 9, 10)),
        ("insertion", (4, 3, 2, 1), 3.75, (0, 1, 3, 6, 10)),
    ],
)
def test_linear_closed_forms(
    kind: str, values: tuple[int, ...], area: float, curve: tuple[int, ...]
) -> None:
    trace = linear()
    heat = heat_of(trace, np.array(values, float).reshape(2, 2))
    found = measure(heat, trace, kind, target=0, full=True)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.curve.shares, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(10 * found.curve.values, curve, atol=1e-10)
    assert 10 * found.area == pytest.approx(area, abs=1e-10)
    areas = [10 * each.area for each in found.random]
    mean, deviation = found.random_area
    assert all(3.75 - 1e-9 <= each <= 6.25 + 1e-9 for each in areas)
    assert 10 * mean == pytest.approx(sum(areas) / 10)
    assert 100 * deviation**2 == pytest.approx(sum((a - sum(areas) / 10) ** 2 for a in areas) / 9)


def slow_curve(trace: Trace, target: int, order: np.ndarray, counts: list[int], kind: str) -> list:
    """One picture after the other, patch by patch."""
    fill, (_, columns), p = baseline(trace, "mean"), trace.grid, 4
    found = []
    for count in counts:
        hidden = order[:count] if kind == "deletion" else order[count:]
        pixels = trace.pixels[0].clone()
        for number in hidden.tolist():
            i, j = divmod(number, columns)
            box = (slice(None), slice(i * p, i * p + p), slice(j * p, j * p + p))
            pixels[box] = fill[box]
        with torch.no_grad():
            found.append(float(trace.model.module(pixels[None]).softmax(-1)[0, target]))
    return found


@pytest.mark.parametrize("variant", CLASSIFIERS)
@pytest.mark.parametrize("kind", ["deletion", "insertion"])
def test_measures_equal_their_slow_twin(variant: str, kind: str) -> None:
    trace = traced(variant)
    heat = explain("occlusion", trace, 3)
    assert isinstance(heat, HeatMap)
    found = measure(heat, trace, kind, full=True)  # type: ignore[arg-type]
    n = trace.grid[0] * trace.grid[1]
    counts = [round(n * k / 16) for k in range(17)]
    if kind == "insertion":
        counts = [n - count for count in counts[::-1]]
    counts = sorted(set(counts))
    order = np.argsort(-heat.values.ravel())
    assert found.target.index == 3
    np.testing.assert_allclose(found.curve.shares, np.array(counts) / n)
    np.testing.assert_allclose(
        found.curve.values, slow_curve(trace, 3, order, counts, kind), atol=1e-10
    )
    steps = np.diff(counts)
    v = found.curve.values
    area = sum(s / n * (v[i] + v[i + 1]) / 2 for i, s in enumerate(steps))
    assert found.area == pytest.approx(area, abs=1e-12)
    for number in (0, 7):  # an insertion of a random order deletes its reverse
        drawn = random_order(n, number)
        drawn = drawn if kind == "deletion" else drawn[::-1]
        slow = slow_curve(trace, 3, drawn, counts, kind)
        np.testing.assert_allclose(found.random[number].values, slow, atol=1e-10)
        np.testing.assert_allclose(found.random[number].shares, np.array(counts) / n)
        assert found.random_marks[number] == pytest.approx(slow[3], abs=1e-10)
    assert found.centre is not None
    middle = centre_first(trace.grid, (4, 4))
    np.testing.assert_allclose(
        found.centre.values, slow_curve(trace, 3, middle, counts, kind), atol=1e-10
    )


def test_centre_first_goes_outwards() -> None:
    order = centre_first((3, 5), (4, 2))
    y, x = np.divmod(order, 5)
    distance = np.hypot((y - 1) * 4, (x - 2) * 2)
    assert (np.diff(distance) >= 0).all()
    assert sorted(order) == list(range(15))
    assert order[0] == 7


def test_sixteen_steps_cover_all_patches() -> None:
    for patches in (1, 4, 15, 16, 49, 196, 577):
        deleted, inserted = (step_counts(patches, kind) for kind in ("deletion", "insertion"))  # type: ignore[arg-type]
        assert (deleted[0], deleted[-1]) == (inserted[0], inserted[-1]) == (0, patches)
        assert (np.diff(deleted) > 0).all()
        assert (np.diff(inserted) > 0).all()
        assert len(deleted) == len(inserted) == min(16, patches) + 1
        assert np.abs(np.diff(deleted) - patches / 16).max() <= 1


def test_orders_rank_signed_maps_by_value_and_sum_pixels() -> None:
    trace = traced("rectangle")
    pixels = np.random.default_rng(3).normal(size=(12, 20))
    summed = patch_values(heat_of(trace, pixels, "pixels", signed=True))
    wanted = [
        [pixels[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].sum() for j in range(5)] for i in (0, 1, 2)
    ]
    np.testing.assert_allclose(summed, wanted)
    assert (np.diff(summed.ravel()[best_first(summed)]) <= 0).all()
    assert summed.ravel()[best_first(summed)[-1]] == summed.min() < 0


def test_equal_patches_follow_no_place() -> None:
    even = best_first(np.zeros((14, 14)))
    assert sorted(even) == list(range(196))
    assert abs(float(np.corrcoef(even, np.arange(196))[0, 1])) < 0.2
    assert (even == best_first(np.ones((14, 14)))).all()
