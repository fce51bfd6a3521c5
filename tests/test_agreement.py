"""Agreement of maps: against loops from the definitions, SciPy, and axioms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from explainers import HeatMap, Photo, explain, load_photo, wrap_model
from explainers.image import Geometry
from explainers.views.agreement import agreement, difference, overlap
from tests.tiny import LABELS, RECTANGLE, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())  # 40 × 60
WHOLE = Geometry((40, 60), (16, 24), (0, 0), (16, 24), (4, 4))  # 4×6 cells of 10 photo pixels
MIDDLE = Geometry((40, 60), (20, 30), (2, 7), (15, 15), (5, 5))  # 3×3 cells, from (4, 14)
FINE = Geometry((40, 60), (33, 47), (3, 5), (28, 36), (2, 2))  # 14×18 cells at odd places
LETTERBOX = Geometry((40, 60), (16, 24), (-4, 0), (24, 24), (4, 4))  # a row above and below


def heat(geometry: Geometry = WHOLE, seed: int = 0, **changes: Any) -> HeatMap:
    values = np.random.default_rng(seed).normal(size=geometry.grid)
    made = HeatMap(
        values=values,
        kind="grid",
        signed=True,
        method="rollout",
        title="Rollout",
        meaning="",
        photo=PHOTO,
        geometry=geometry,
        target=None,
        against=None,
        parameters={},
        prefix_share=None,
        figures={},
        notes=(),
        provenance={"seed": seed},
    )
    return replace(made, **changes)


def slow_mean(one: HeatMap, box: tuple[float, float, float, float]) -> float:
    """The mean of a map over a box of the photo, cell by cell."""
    left, top, right, bottom = box
    total = area = 0.0
    for row in range(one.geometry.grid[0]):
        for column in range(one.geometry.grid[1]):
            a, b, c, d = one.geometry.cell_box(row, column)
            part = max(0, min(c, right) - max(a, left)) * max(0, min(d, bottom) - max(b, top))
            total += part * one.values[row, column]
            area += part
    assert area == pytest.approx((right - left) * (bottom - top))
    return total / area


def slow_spearman(first: np.ndarray, second: np.ndarray) -> float:
    """The correlation of the ranks, each counted by loops."""

    def rank(values: list[float]) -> list[float]:
        return [sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2 for v in values]

    a, b = rank(first.ravel().tolist()), rank(second.ravel().tolist())
    ma, mb = sum(a) / len(a), sum(b) / len(b)
    top = sum((x - ma) * (y - mb) for x, y in zip(a, b, strict=True))
    return top / math.sqrt(sum((x - ma) ** 2 for x in a) * sum((y - mb) ** 2 for y in b))


def slow_overlap(first: np.ndarray, second: np.ndarray) -> float:
    def best(values: np.ndarray) -> set[int]:
        flat = values.ravel().tolist()
        last = sorted(flat, reverse=True)[math.ceil(len(flat) / 5) - 1]
        return {index for index, value in enumerate(flat) if value >= last}

    a, b = best(first), best(second)
    return len(a & b) / len(a | b)


@pytest.mark.parametrize("others", [(MIDDLE,), (FINE,), (FINE, MIDDLE), (LETTERBOX, FINE)])
def test_other_grids_are_brought_over_by_area(others: tuple[Geometry, ...]) -> None:
    heats = [heat(), *(heat(geometry, seed) for seed, geometry in enumerate(others, 1))]
    found = agreement(heats)
    assert found.resampled
    rows, columns = found.geometry.grid
    assert found.values.shape == (len(heats), rows, columns)
    for one, values in zip(heats, found.values, strict=True):
        for row in range(rows):
            for column in range(columns):
                expected = slow_mean(one, found.geometry.cell_box(row, column))
                assert values[row, column] == pytest.approx(expected, abs=1e-12)


def test_the_coarsest_map_keeps_its_own_cells() -> None:
    found = agreement([heat(FINE), heat(MIDDLE)])
    assert found.geometry == MIDDLE
    np.testing.assert_array_equal(found.values[1], heat(MIDDLE).values)
    one = agreement([heat(), heat(seed=1)])
    assert not one.resampled
    np.testing.assert_array_equal(one.values[1], heat(seed=1).values)


def test_cells_off_the_photo_or_unseen_by_one_model_are_left_out() -> None:
    assert agreement([heat(LETTERBOX)]).geometry.grid == (4, 6)
    found = agreement([heat(), heat(MIDDLE)]).geometry
    (left, top, right, bottom), box = found.seen_box, MIDDLE.seen_box
    assert left >= box[0] - 1e-9
    assert top >= box[1] - 1e-9
    assert right <= box[2] + 1e-9
    assert bottom <= box[3] + 1e-9


def test_a_constant_map_stays_constant_on_every_grid() -> None:
    even = heat(FINE, values=np.full(FINE.grid, 0.3))
    np.testing.assert_allclose(agreement([heat(), even]).values[1], 0.3, rtol=1e-14)


def test_pixel_maps_are_compared_with_patch_maps() -> None:
    values = np.random.default_rng(5).normal(size=WHOLE.input_size)
    pixels = heat(values=values, kind="pixels")
    found = agreement([heat(), pixels])
    assert found.geometry == WHOLE
    means = values.reshape(4, 4, 6, 4).mean(axis=(1, 3))
    np.testing.assert_allclose(found.values[1], means, rtol=1e-12)


def test_matrices_against_loops_and_scipy() -> None:
    ties = heat(seed=3, values=np.random.default_rng(3).integers(0, 4, WHOLE.grid).astype(float))
    found = agreement([heat(), heat(seed=1), ties, heat(FINE, 2)])
    count = len(found.heats)
    for table in (found.spearman, found.overlap):
        np.testing.assert_array_equal(table, table.T)
        np.testing.assert_array_equal(np.diag(table), 1)
    for i in range(count):
        for j in range(i):
            a, b = found.values[i], found.values[j]
            assert found.spearman[i, j] == pytest.approx(slow_spearman(a, b), abs=1e-12)
            peer = scipy.stats.spearmanr(a.ravel(), b.ravel()).statistic
            assert found.spearman[i, j] == pytest.approx(peer, abs=1e-12)
            assert found.overlap[i, j] == pytest.approx(slow_overlap(a, b))


def test_only_the_order_of_the_cells_counts() -> None:
    one = heat()
    found = agreement([one, heat(values=np.exp(3 * one.values)), heat(values=-one.values)])
    np.testing.assert_allclose(found.spearman[0], [1, 1, -1], atol=1e-12)
    np.testing.assert_array_equal(found.overlap[0], [1, 1, 0])
    assert overlap(np.arange(10.0), np.arange(10.0)[::-1]) == 0
    assert overlap(np.arange(10.0), np.array([0, 0, 0, 0, 0, 0, 0, 0, 1.0, 2])) == 1


def test_consensus_is_the_mean_of_ranks() -> None:
    heats = [heat(), heat(seed=1), heat(FINE, 2)]
    found = agreement(heats)
    ranked = [scipy.stats.rankdata(values).reshape(values.shape) for values in found.values]
    expected = (np.mean(ranked, axis=0) - 1) / (found.values[0].size - 1)
    np.testing.assert_allclose(found.consensus.values, expected, rtol=1e-12)
    assert found.consensus.values.min() >= 0
    assert found.consensus.values.max() <= 1
    turned = agreement(heats[::-1]).consensus
    np.testing.assert_allclose(turned.values, expected, rtol=1e-12)
    alone = agreement([heat()]).consensus
    assert alone.values.max() == 1
    assert np.argmax(alone.values) == np.argmax(heat().values)
    assert alone.overlay(width=30).size == (30, 20)


def test_difference_is_signed_and_in_the_methods_unit() -> None:
    one, other = heat(), heat(seed=1)
    found = difference(one, other)
    np.testing.assert_array_equal(found.values, one.values - other.values)
    np.testing.assert_array_equal(difference(other, one).values, -found.values)
    assert found.signed
    mixed = difference(one, heat(MIDDLE, 1))
    assert mixed.values.shape == mixed.geometry.grid


@pytest.mark.parametrize("method", ["rollout", "relevance", "saliency"])
def test_identical_weights_differ_by_exactly_zero(method: str) -> None:
    maps = [
        explain(method, wrap_model(tiny_vit(seed=3), labels=LABELS).trace(PHOTO), target="lion")
        for _ in range(2)
    ]
    assert not difference(*maps).values.any()  # type: ignore[arg-type]
    changed = wrap_model(tiny_vit(seed=4), labels=LABELS).trace(PHOTO)
    other = explain(method, changed, target="lion")
    assert difference(maps[0], other).values.any()  # type: ignore[arg-type]


def test_models_of_different_grids_can_be_compared() -> None:
    maps = [
        explain("rollout", wrap_model(tiny_vit(size=size), labels=LABELS).trace(PHOTO))
        for size in ((16, 16), RECTANGLE, (24, 24))
    ]
    found = agreement(maps)  # type: ignore[arg-type]
    assert found.spearman.shape == (3, 3)
    assert np.isfinite(found.values).all()


def test_what_cannot_be_compared_is_refused_in_a_sentence() -> None:
    other = replace(heat(), photo=Photo(tiny_photo_array(seed=9)))
    with pytest.raises(ValueError, match="one and the same photo; 2 maps of 2 photos"):
        agreement([heat(), other])
    with pytest.raises(ValueError, match="0 maps of 0 photos"):
        agreement([])
    colours = heat(values=np.zeros((4, 6, 3)), kind="rgb")
    with pytest.raises(ValueError, match="three values a cell"):
        agreement([heat(), colours])
    with pytest.raises(ValueError, match="different units"):
        difference(heat(), heat(method="attention"))
    corner = Geometry((40, 60), (16, 24), (0, 0), (4, 4), (4, 4))
    far = Geometry((40, 60), (16, 24), (12, 20), (4, 4), (4, 4))
    with pytest.raises(ValueError, match="no patch in common"):
        agreement([heat(corner), heat(far)])
