"""Geometry: what the map says of a cell lands on the pixels of the photo that the cell showed."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

from explainers import photo_pixels
from explainers.image import Geometry, Photo, load_photo
from explainers.models.preprocessing import CropMode, Preprocessing
from tests.test_image import STORED, encoded, exif_with

MODES: tuple[CropMode, ...] = ("center", "squash", "border")
SHAPES = [(300, 300), (240, 360), (360, 240), (180, 320), (450, 150)]
HALF = (0.5, 0.5, 0.5)

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


def preprocessing(mode: CropMode, size: tuple[int, int] = (224, 224)) -> Preprocessing:
    return Preprocessing(size, HALF, HALF, "bicubic", 0.875, mode)


def centroid(weights: np.ndarray) -> tuple[float, float]:
    """(x, y) of the centre of mass, pixel centres at halves; what is not seen weighs nothing."""
    weights = np.nan_to_num(weights)
    y, x = np.mgrid[0 : weights.shape[0], 0 : weights.shape[1]] + 0.5
    return float((x * weights).sum() / weights.sum()), float((y * weights).sum() / weights.sum())


def means_of_cells(picture: np.ndarray, geometry: Geometry) -> np.ndarray:
    """The input picture (h, w) averaged over each cell: (rows, columns)."""
    (rows, columns), (height, width) = geometry.grid, geometry.patch
    cut = picture[: rows * height, : columns * width]
    return cut.reshape(rows, height, columns, width).mean(axis=(1, 3))


def photo_with_square(shape: tuple[int, int]) -> tuple[np.ndarray, tuple[float, float], int]:
    """A dark photo with a bright square that every crop shows; its centre (x, y) and its side."""
    short = min(shape)
    side = short // 8
    left = shape[1] // 2 + short // 9
    top = shape[0] // 2 - short // 4
    array = np.zeros((*shape, 3), np.uint8)
    array[top : top + side, left : left + side] = 255
    return array, (left + side / 2, top + side / 2), side


# A bright square at a known place


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_bright_square_lands_on_itself(
    shape: tuple[int, int], orientation: int, mode: CropMode
) -> None:
    array, (x, y), side = photo_with_square(shape)
    photo = load_photo(encoded(STORED[orientation](array), exif=exif_with(orientation)))
    prepared = preprocessing(mode)
    geometry = prepared.geometry(photo, (16, 16))
    pixels = prepared(photo).numpy().mean(axis=0) * 0.5 + 0.5  # (224, 224), 0 dark to 1 bright
    if mode == "border":  # the border itself is grey: it counts as nothing here
        pixels = np.where(np.abs(pixels - 0.5) < 0.01, 0, pixels)

    heat = np.clip(means_of_cells(pixels, geometry), 0, None)
    left, top, right, bottom = geometry.cell_box(7, 7)
    for smooth in (False, True):
        cx, cy = centroid(geometry.spread(heat, smooth))
        assert abs(cx - x) <= (right - left) / 2
        assert abs(cy - y) <= (bottom - top) / 2

    spread = geometry.spread(np.clip(pixels, 0, None))
    inside = spread[int(y - side / 2) : int(y + side / 2), int(x - side / 2) : int(x + side / 2)]
    assert centroid(spread) == pytest.approx((x, y), abs=1)
    assert inside.mean() > 0.8
    assert np.nansum(spread) == pytest.approx(side * side, rel=0.12)


@pytest.mark.parametrize("right_edge", [True, False])
def test_a_wide_input_keeps_its_axes(right_edge: bool) -> None:
    array = np.zeros((300, 600, 3), np.uint8)
    array[140:160, 540:560] = 255
    array = array if right_edge else array.swapaxes(0, 1)
    size = (224, 448) if right_edge else (448, 224)
    prepared = preprocessing("center", size)
    photo = load_photo(array)
    geometry = prepared.geometry(photo, (16, 16))
    heat = means_of_cells(prepared(photo).numpy().mean(axis=0), geometry)
    assert heat.shape == geometry.grid == ((14, 28) if right_edge else (28, 14))
    row, column = np.unravel_index(heat.argmax(), heat.shape)
    peak = np.nanargmax(geometry.spread(heat))
    y, x = np.unravel_index(peak, array.shape[:2])
    assert geometry.cell_at(x + 0.5, y + 0.5) == (row, column)
    along, across = (x, y) if right_edge else (y, x)
    assert abs(along - 550) < 25
    assert abs(across - 150) < 25


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


# Sizes that do not fit


def test_a_size_that_is_no_multiple_of_the_patch() -> None:
    """427 × 488 in patches of 8: 53 × 61 cells, and the last rows of pixels are not seen."""
    geometry = Geometry((427, 488), (427, 488), (0, 0), (427, 488), (8, 8))
    assert geometry.grid == (53, 61)
    spread = geometry.spread(np.ones((53, 61)))
    assert np.isnan(spread[424:]).all()
    assert np.isfinite(spread[:424]).all()
    assert geometry.cell_at(100, 425) is None
    assert geometry.seen_box == (0, 0, 488, 424)


@pytest.mark.parametrize("shape", [(1, 4), (1, 5), (4, 1), (1, 300), (2, 3), (1, 1)])
@pytest.mark.parametrize("mode", MODES)
def test_photos_of_a_few_pixels_show_something(shape: tuple[int, int], mode: CropMode) -> None:
    photo = Photo(np.full((*shape, 3), 200, np.uint8))
    geometry = preprocessing(mode).geometry(photo, (16, 16))
    for values in (np.ones(geometry.grid), np.ones(geometry.input_size)):
        for smooth in (False, True):
            spread = geometry.spread(values, smooth)
            assert spread.shape == shape
            assert np.isfinite(spread).any()
            assert np.nanmin(spread) == np.nanmax(spread) == 1


def test_shares_seen() -> None:
    photo = Photo(np.zeros((300, 600, 3), np.uint8))
    assert preprocessing("squash").geometry(photo, (16, 16)).seen_share == pytest.approx(0.875**2)
    centre = preprocessing("center").geometry(photo, (16, 16))
    assert centre.seen_share == pytest.approx(0.875**2 / 2)
    whole = Preprocessing((224, 224), HALF, HALF, "bicubic", 1.0, "border")
    border = whole.geometry(photo, (16, 16))
    assert border.seen_share == 1
    assert border.seen_box == (0, 0, 600, 300)
    assert border.offset == (-56, 0)
    assert border.cell_box(0, 0)[1] == -150


def test_a_large_photo_is_spread_quickly() -> None:
    geometry = Geometry((4000, 6000), (256, 384), (16, 80), (224, 224), (16, 16))
    values = np.random.default_rng(7).uniform(size=(14, 14)).astype(np.float32)
    for smooth in (False, True):
        seconds = []
        for _ in range(3):
            start = time.thread_time()
            geometry.spread(values, smooth)
            seconds.append(time.thread_time() - start)
        assert min(seconds) < 0.5


def test_maps_lie_over_the_photo_as_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photo_pixels, "KEPT", 100_000)
    image = Image.new("L", (1400, 1000))
    image.paste(255, (840, 280, 980, 420))
    photo = load_photo(encoded(image, "JPEG"))
    assert photo.notes[0].key == "photo_reduced"
    prepared = preprocessing("center")
    geometry = prepared.geometry(photo, (16, 16))
    heat = means_of_cells(prepared(photo).numpy().mean(axis=0) + 1, geometry)
    x, y = centroid(geometry.spread(heat))
    assert x / photo.width == pytest.approx(0.65, abs=0.02)
    assert y / photo.height == pytest.approx(0.35, abs=0.02)
