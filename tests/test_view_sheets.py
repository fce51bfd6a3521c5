"""Sheets of filters and positions: every tile is there, scaled, marked, and of bounded size."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

from explainers.render.charts import MARK, display_filters, filter_sheet, margins, position_sheet
from explainers.views.filters import FilterGrid
from tests.learned_views import wave


def test_each_filter_is_scaled_alone_and_keeps_its_sign() -> None:
    filters = np.zeros((3, 2, 2, 3))
    filters[0, 0, 0] = (2, -2, 0)
    filters[1, 1, 1] = (1e-9, -5e-10, 0)
    shown = display_filters(filters)
    assert shown[0, 0, 0].tolist() == [255, 0, 128]
    assert shown[1, 1, 1].tolist() == [255, 64, 128]
    assert (shown[2] == 128).all()
    mirrored = display_filters(-filters).astype(int)
    assert np.abs(mirrored + shown - 255).max() <= 1


def test_filter_sheets_hold_every_tile() -> None:
    random = np.random.default_rng(0)
    filters = random.normal(size=(10, 4, 4, 3))
    sheet = np.asarray(filter_sheet(FilterGrid(filters, None, 10), width=200, columns=5))[..., :3]
    tiles = display_filters(filters)
    zoom = 200 // 5 // 5
    gap = max(2, 4 * zoom // 16)
    for index in range(10):
        top, left = (gap + n * (4 * zoom + gap) for n in divmod(index, 5))
        tile = sheet[top : top + 4 * zoom, left : left + 4 * zoom]
        assert (tile[zoom // 2 :: zoom, zoom // 2 :: zoom] == tiles[index]).all()


@pytest.mark.parametrize(
    ("count", "patch"), [(1, (4, 4)), (28, (14, 14)), (1024, (32, 16)), (1024, (32, 32))]
)
def test_filter_sheets_have_a_bounded_size(count: int, patch: tuple[int, int]) -> None:
    filters = np.random.default_rng(0).normal(size=(count, *patch, 3))
    for variance in (None, np.full(count, 1 / count)):
        if variance is not None and count > 100:
            continue
        sheet = filter_sheet(FilterGrid(filters, variance, count))
        assert sheet.width <= 900
        assert sheet.height <= 1500


@pytest.mark.parametrize("grid", [(1, 1), (7, 7), (14, 14), (6, 12), (37, 37), (64, 64)])
def test_position_sheets_have_a_bounded_size(grid: tuple[int, int]) -> None:
    sheet = position_sheet(wave(*grid))
    left, top, right, bottom, _ = margins(980)
    assert max(sheet.size) <= 980 + max(left + right, top + bottom)


def test_position_sheet_marks_each_own_cell_and_shows_the_rest() -> None:
    positions = wave(3, 5)
    picture = np.asarray(position_sheet(positions, side=300)).astype(int)[..., :3]
    zoom = 300 // (5 * 6)
    step_y, step_x = (3 + 1) * zoom, (5 + 1) * zoom  # the gap is one cell
    left, top, *_ = margins(300)
    colours = matplotlib.colormaps["viridis"]
    for i, j, k, m in np.ndindex(3, 5, 3, 5):
        y, x = top + i * step_y + k * zoom, left + j * step_x + m * zoom
        corner, centre = picture[y, x], picture[y + zoom // 2, x + zoom // 2]
        assert (corner.max() < 40) == ((i, j) == (k, m))
        cosine = float(positions.similarity[i, j, k, m])
        expected = np.array(colours((cosine + 1) / 2)[:3]) * 255
        assert np.abs(centre - expected).max() <= 3
    assert MARK > 1


def test_every_patch_of_a_large_grid_is_not_needed() -> None:
    small = position_sheet(wave(37, 37), side=400)
    assert max(small.size) <= 400 + 150
