"""Maps spread over the photo: against a slow twin, and cells found again by their points."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from explainers.image import Geometry
from tests.centres import centroid

GEOMETRIES = {
    "whole": Geometry((60, 80), (30, 40), (0, 0), (30, 40), (10, 10)),
    "centre": Geometry((41, 67), (32, 52), (4, 14), (24, 24), (8, 8)),
    "border": Geometry((67, 41), (56, 34), (0, -11), (56, 56), (8, 8)),
    "squash": Geometry((50, 90), (48, 48), (3, 3), (42, 42), (6, 6)),
    "rectangle": Geometry((90, 50), (64, 36), (8, 2), (48, 32), (16, 8)),
    "enlarged": Geometry((7, 9), (256, 329), (16, 52), (224, 224), (16, 16)),
    "cut margin": Geometry((61, 61), (61, 61), (3, 3), (55, 55), (8, 8)),
}
geometries = pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES.keys())


# One hot cell


@pytest.mark.parametrize("name", [name for name in GEOMETRIES if name != "enlarged"])
@pytest.mark.parametrize("smooth", [False, True])
def test_a_hot_cell_is_drawn_at_its_place(name: str, smooth: bool) -> None:
    geometry = GEOMETRIES[name]
    rows, columns = geometry.grid
    height, width = geometry.photo_size
    checked = 0
    for row in range(rows):
        for column in range(columns):
            left, top, right, bottom = geometry.cell_box(row, column)
            edge = row in (0, rows - 1) or column in (0, columns - 1)
            outside = left < 0 or top < 0 or right > width or bottom > height
            if outside or (smooth and edge):  # what is cut off has no centre to compare
                continue
            values = np.zeros(geometry.grid, np.float32)
            values[row, column] = 1
            x, y = centroid(geometry.spread(values, smooth))
            assert abs(x - (left + right) / 2) <= 0.5
            assert abs(y - (top + bottom) / 2) <= 0.5
            checked += 1
    assert checked


# The slow twin


def slow_spread(geometry: Geometry, values: np.ndarray, cell: tuple[int, int]) -> np.ndarray:
    """Pixel by pixel, in exact fractions: which cell does the centre of the pixel lie in?"""
    out = np.full(geometry.photo_size, np.nan)
    for y in range(geometry.photo_size[0]):
        for x in range(geometry.photo_size[1]):
            index = []
            for axis, pixel in enumerate((y, x)):
                scale = Fraction(geometry.resized_size[axis], geometry.photo_size[axis])
                at = (pixel + Fraction(1, 2)) * scale - geometry.offset[axis]
                seen = 0 <= at < geometry.grid[axis] * geometry.patch[axis]
                index.append(math.floor(at / cell[axis]) if seen else None)
            if None not in index:
                out[y, x] = values[index[0], index[1]]
    return out


@geometries
def test_spread_equals_its_definition(geometry: Geometry) -> None:
    random = np.random.default_rng(3)
    grid = random.normal(size=geometry.grid)
    fine = random.normal(size=geometry.input_size)
    assert np.array_equal(
        geometry.spread(grid), slow_spread(geometry, grid, geometry.patch), equal_nan=True
    )
    assert np.array_equal(
        geometry.spread(fine), slow_spread(geometry, fine, (1, 1)), equal_nan=True
    )


@geometries
def test_spread_tells_what_is_not_seen(geometry: Geometry) -> None:
    height, width = geometry.photo_size
    left, top, right, bottom = geometry.seen_box
    y, x = np.mgrid[0:height, 0:width] + 0.5
    seen = (x >= left) & (x < right) & (y >= top) & (y < bottom)
    for values in (np.ones(geometry.grid), np.ones(geometry.input_size)):
        for smooth in (False, True):
            assert np.array_equal(np.isfinite(geometry.spread(values, smooth)), seen)
    assert geometry.seen_share == pytest.approx(
        (right - left) * (bottom - top) / (height * width), abs=1e-12
    )
    assert 0 < geometry.seen_share <= 1


@geometries
def test_smooth_goes_through_the_centres_and_stays_within_neighbours(geometry: Geometry) -> None:
    values = np.random.default_rng(4).normal(size=geometry.grid)
    smooth = geometry.spread(values, smooth=True)
    assert np.nanmax(smooth) <= values.max() + 1e-12
    assert np.nanmin(smooth) >= values.min() - 1e-12
    rows, columns = geometry.grid
    row, column = np.mgrid[0:rows, 0:columns]
    plane = 3.0 * row - 2.0 * column  # bilinear keeps a plane, but for the outer half cells
    smooth = geometry.spread(plane, smooth=True)
    for y in range(geometry.photo_size[0]):
        for x in range(geometry.photo_size[1]):
            if np.isnan(smooth[y, x]):
                continue
            u, v = geometry.photo_to_input(x + 0.5, y + 0.5)
            at_row = min(max(v / geometry.patch[0] - 0.5, 0), rows - 1)
            at_column = min(max(u / geometry.patch[1] - 0.5, 0), columns - 1)
            assert smooth[y, x] == pytest.approx(3 * at_row - 2 * at_column, abs=1e-9)


def test_colours_and_types() -> None:
    geometry = GEOMETRIES["centre"]
    values = np.random.default_rng(5).uniform(size=(*geometry.grid, 3)).astype(np.float32)
    for smooth in (False, True):
        colours = geometry.spread(values, smooth)
        assert colours.shape == (*geometry.photo_size, 3)
        for channel in range(3):
            one = geometry.spread(values[..., channel], smooth)
            assert np.array_equal(colours[..., channel], one, equal_nan=True)
    assert geometry.spread(np.ones(geometry.grid)).dtype == np.float64
    assert geometry.spread(np.ones(geometry.grid, np.float16)).dtype == np.float32
    assert geometry.spread(np.ones(geometry.grid, int)).dtype == np.float32
    for shape in [(2, 3), geometry.grid[:1], (1, *geometry.grid), (24, 23)]:
        with pytest.raises(ValueError, match="its own trace"):
            geometry.spread(np.ones(shape))


def test_one_cell_and_one_pixel() -> None:
    geometry = Geometry((5, 5), (16, 16), (0, 0), (16, 16), (16, 16))
    for smooth in (False, True):
        assert np.array_equal(geometry.spread(np.full((1, 1), 2.0), smooth), np.full((5, 5), 2.0))


# Cells and points


@geometries
def test_cells_and_points_agree(geometry: Geometry) -> None:
    height, width = geometry.photo_size
    rows, columns = geometry.grid
    for row in range(rows):
        for column in range(columns):
            left, top, right, bottom = geometry.cell_box(row, column)
            middle = (left + right) / 2, (top + bottom) / 2
            inside = 0 <= middle[0] < width and 0 <= middle[1] < height
            assert geometry.cell_at(*middle) == ((row, column) if inside else None)
    for outside in [(-0.1, 3), (3, -0.1), (width, 3), (3, height), (-1e9, 1e9)]:
        assert geometry.cell_at(*outside) is None
    x, y = np.random.default_rng(6).uniform(0, 50, (2, 20))
    assert np.allclose(geometry.input_to_photo(*geometry.photo_to_input(x, y)), (x, y))
    for cell in [(-1, 0), (0, columns), (rows, 0)]:
        with pytest.raises(ValueError, match="outside the grid"):
            geometry.cell_box(*cell)


@geometries
def test_cell_at_agrees_with_spread(geometry: Geometry) -> None:
    rows, columns = geometry.grid
    numbers = geometry.spread(np.arange(rows * columns, dtype=float).reshape(rows, columns))
    for y in range(geometry.photo_size[0]):
        for x in range(geometry.photo_size[1]):
            cell = geometry.cell_at(x + 0.5, y + 0.5)
            want = math.nan if cell is None else cell[0] * columns + cell[1]
            assert np.array_equal(numbers[y, x], want, equal_nan=True)


def test_cells_tile_the_seen_part() -> None:
    geometry = GEOMETRIES["centre"]
    rows, columns = geometry.grid
    first, last = geometry.cell_box(0, 0), geometry.cell_box(rows - 1, columns - 1)
    assert (*first[:2], *last[2:]) == pytest.approx(geometry.seen_box)
    assert geometry.cell_box(0, 0)[2] == geometry.cell_box(0, 1)[0]
