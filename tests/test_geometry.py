"""Geometry: what the map says of a cell lands on the pixels of the photo that the cell showed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from PIL import Image

from explainers import photo_pixels
from explainers.image import Geometry, Photo, load_photo
from explainers.models.preprocessing import CropMode, Preprocessing
from tests.centres import centroid
from tests.photo_files import STORED, encoded, exif_with

MODES: tuple[CropMode, ...] = ("center", "squash", "border")
SHAPES = [(300, 300), (240, 360), (360, 240), (180, 320), (450, 150)]
HALF = (0.5, 0.5, 0.5)


def preprocessing(mode: CropMode, size: tuple[int, int] = (224, 224)) -> Preprocessing:
    return Preprocessing(size, HALF, HALF, "bicubic", 0.875, mode)


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
