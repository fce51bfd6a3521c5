"""Colours of photos: formats, modes, transparency, depth and arrays become 8-bit RGB."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from PIL import Image

from explainers.image import load_photo
from tests.photo_files import FORMATS, encoded, keys, refusal, sixteen_bit
from tests.tiny import tiny_photo_array


@pytest.mark.parametrize("kind", FORMATS)
def test_formats(kind: str) -> None:
    y, x = np.mgrid[0:40, 0:60]
    array = np.stack([4 * x, 6 * y, 250 - 2 * x - 2 * y], axis=-1).astype(np.uint8)
    photo = load_photo(encoded(array, kind))
    assert photo.pixels.shape == array.shape
    assert np.abs(photo.pixels.astype(int) - array).mean() < (20 if kind == "GIF" else 6)
    assert photo.notes == ()


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "HSV", "RGBX", "LAB"])
def test_modes(mode: str) -> None:
    image = Image.fromarray(tiny_photo_array()).convert(mode)
    photo = load_photo(image)
    assert np.array_equal(photo.pixels, np.asarray(image.convert("RGB")))
    assert photo.notes == ()


def test_an_unusual_mode_is_refused_by_name() -> None:
    sentence = refusal(Image.new("La", (4, 4)))
    assert sentence.key == "photo_colours"
    assert "La" in sentence


def test_cmyk_jpeg() -> None:
    image = Image.new("CMYK", (20, 20), (0, 255, 255, 0))
    assert np.abs(load_photo(encoded(image, "JPEG")).pixels.astype(int) - (255, 0, 0)).max() <= 4


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "RGBa"])
def test_transparent_parts_are_white(mode: str) -> None:
    array = np.zeros((10, 20, 4), np.uint8)
    array[:, 5:10, 3], array[:, 10:, 3] = 128, 255
    image = Image.fromarray(array)
    if mode == "PA":
        image = Image.new("P", (20, 10))
        image.putalpha(Image.fromarray(array[..., 3]))
        assert image.mode == "PA"
    else:
        image = image.convert(mode)
    photo = load_photo(image)
    assert [int(photo.pixels[0, x, 0]) for x in (0, 7, 15)] == [255, 127, 0]
    assert keys(photo) == ["photo_transparent"]
    array[..., 3] = 255
    assert load_photo(Image.fromarray(array)).notes == ()


def test_a_transparent_palette_entry_is_white() -> None:
    image = Image.new("P", (6, 4), 0)
    image.putpalette([200, 0, 0, 0, 0, 200])
    image.paste(1, (3, 0, 6, 4))
    photo = load_photo(encoded(image, "PNG", transparency=0))
    assert photo.pixels[0, 0].tolist() == [255, 255, 255]
    assert photo.pixels[0, 5].tolist() == [0, 0, 200]
    assert keys(photo) == ["photo_transparent"]


@pytest.mark.parametrize("mode", ["array", "PNG", "TIFF, big end first", "I"])
def test_sixteen_bit_grey_has_256_levels(mode: str) -> None:
    photo = load_photo(sixteen_bit(mode))
    grey = photo.pixels[..., 0].ravel().astype(int)
    assert np.array_equal(photo.pixels[..., 0], photo.pixels[..., 2])
    assert np.array_equal(grey, np.round(np.arange(65536) / 257).astype(int))
    assert len(np.unique(grey)) == 256
    assert keys(photo) == ["photo_levels"]


@pytest.mark.parametrize(
    ("low", "high", "black", "white"),
    [(0.0, 1.0, 0, 1), (0.2, 0.9, 0, 1), (0, 255, 0, 255), (-3, 5, -3, 5), (1e4, 1e6, 1e4, 1e6)],
)
def test_real_numbers_are_spread_over_their_range(
    low: float, high: float, black: float, white: float
) -> None:
    ramp = np.linspace(low, high, 4096, dtype=np.float32).reshape(64, 64)
    want = np.round((ramp.astype(float) - black) / (white - black) * 255)
    for source in (ramp, Image.fromarray(ramp), ramp.astype(np.float64)):
        photo = load_photo(source)
        assert np.abs(photo.pixels[..., 0] - want).max() <= 1
        assert keys(photo) == ["photo_levels"]


@pytest.mark.parametrize(
    ("array", "first_pixel"),
    [
        (np.array([[True, False]]), 255),
        (np.full((2, 2), 7, np.int64), 7),
        (np.full((2, 2), 200, np.uint32), 200),
        (np.full((2, 2), 257 * 9, np.int64), 9),
        (np.array([[-5, 5]]), 0),
        (np.array([[100_000, 0]]), 255),
        (np.full((2, 2), 1000.0), 0),
        (np.full((2, 2), 0.5, np.float16), 128),
        (np.full((2, 2, 1), 7, np.uint8), 7),
        (np.asfortranarray(np.full((5, 2, 3), 7, np.uint8)), 7),
    ],
)
def test_arrays(array: np.ndarray, first_pixel: int) -> None:
    photo = load_photo(array)
    assert photo.pixels.shape == (*array.shape[:2], 3)
    assert photo.pixels[0, 0].tolist() == [first_pixel] * 3


def test_arrays_with_alpha() -> None:
    array = np.zeros((4, 4, 4))
    array[:2, :, 3] = 1.0
    photo = load_photo(array)
    assert photo.pixels[0, 0].tolist() == [0, 0, 0]
    assert photo.pixels[3, 0].tolist() == [255, 255, 255]
    assert keys(photo) == ["photo_levels", "photo_transparent"]


@pytest.mark.parametrize(
    ("array", "key"),
    [
        (np.zeros((3, 40, 60)), "photo_array_shape"),
        (np.zeros((1, 40, 60, 3)), "photo_array_shape"),
        (np.zeros(7), "photo_array_shape"),
        (np.zeros((0, 5, 3)), "photo_no_pixels"),
        (np.array([[0.0, np.nan, np.inf]]), "photo_not_finite"),
        (np.zeros((4, 4), complex), "photo_array_type"),
        (np.zeros((4, 4), object), "photo_array_type"),
        (np.broadcast_to(np.uint8(0), (20_001, 10_000, 3)), "photo_too_large"),
    ],
)
def test_arrays_that_are_no_photos(array: np.ndarray, key: str) -> None:
    assert refusal(array).key == key


@pytest.mark.parametrize("values", [(-1e308, 1e308), (-1e-320, 1e-320), (-1.7e308, 1.7e308)])
def test_the_largest_and_smallest_numbers(values: tuple[float, float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        photo = load_photo(np.array([[values[0], 0.0, values[1]]]))
    assert photo.pixels[0, :, 0].tolist() == [0, 128, 255]


def test_masked_values_are_refused() -> None:
    grey = np.full((4, 4), 7, np.uint8)
    assert load_photo(np.ma.masked_array(grey)).pixels[0, 0, 0] == 7
    assert refusal(np.ma.masked_array(grey, mask=grey == 7)).key == "photo_masked"


def test_more_than_a_double_holds_is_refused() -> None:
    huge = np.array([[0, np.finfo(np.longdouble).max]])
    assert refusal(huge).values["count"] == 1
