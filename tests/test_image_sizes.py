"""Photos of one pixel or a hundred million; animations and icons, of which one picture is used."""

from __future__ import annotations

import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from explainers import photo_pixels
from explainers.image import PhotoError, load_photo
from explainers.photo_files import LARGEST
from explainers.photo_pixels import KEPT
from tests.photo_files import (
    FORMATS,
    encoded,
    encoded_animation,
    exif_with,
    keys,
    refusal,
    sixteen_bit,
)
from tests.tiny import tiny_photo_array


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"0" * 99))


# Animations


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_an_animation_the_first_picture_is_used(kind: str) -> None:
    photo = load_photo(encoded_animation(kind))
    assert photo.pixels[4, 4].tolist() == [255, 0, 0]
    assert keys(photo) == ["photo_animated"]
    assert photo.notes[0].values == {"frames": 3, "frame": 1}


def test_a_phone_photo_with_a_preview_is_no_animation() -> None:
    frames = [Image.new("RGB", (12, 8), colour) for colour in ("red", "lime")]
    data = encoded(frames[0], "MPO", save_all=True, append_images=frames[1:])
    assert load_photo(data).notes == ()


# Icons


def icon(picture: bytes, side: int = 16) -> bytes:
    entry = struct.pack("<BBBBHHII", side, side, 0, 0, 1, 32, len(picture), 22)
    return struct.pack("<HHH", 0, 1, 1) + entry + picture


def test_an_icon_of_another_size_than_it_says() -> None:
    inside = tiny_photo_array()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(load_photo(icon(encoded(inside))).pixels, inside)
    bitmap = encoded(inside, "BMP")[14:]
    assert refusal(icon(bitmap)).key == "photo_damaged"


def test_the_picture_in_an_icon_is_judged_by_its_own_size() -> None:
    header = encoded(np.zeros((1, 1, 3), np.uint8))
    large = header[:16] + struct.pack(">II", 14_500, 14_500) + header[24:29]
    large += struct.pack(">I", zlib.crc32(large[12:29])) + header[33:]
    assert refusal(icon(large)).key == "photo_too_large"


@pytest.mark.parametrize("bitmap_format", ["png", "bmp"])
def test_icons(bitmap_format: str) -> None:
    square = tiny_photo_array(32, 32)
    data = encoded(square, "ICO", sizes=[(16, 16), (32, 32)], bitmap_format=bitmap_format)
    assert np.array_equal(load_photo(data).pixels, square)


# Size


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 500, 3), (500, 1, 3), (2, 1)])
def test_photos_one_pixel_wide_work(shape: tuple[int, ...]) -> None:
    array = np.full(shape, 9, np.uint8)
    for source in (array, encoded(array)):
        assert load_photo(source).pixels.shape == (*shape[:2], 3)


@pytest.mark.parametrize(
    ("kind", "size", "orientation"), [("JPEG", (12_000, 9_000), 6), ("PNG", (6_000, 4_500), 1)]
)
def test_a_photo_of_108_megapixels_is_made_smaller(
    kind: str, size: tuple[int, int], orientation: int
) -> None:
    image = Image.new("L", size)
    image.paste(255, (size[0] // 2, 0, size[0], size[1] // 2))
    data = encoded(image, kind, exif=exif_with(orientation), compress_level=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Pillow would warn of a bomb
        photo = load_photo(data)
    assert 0.99 * KEPT < photo.height * photo.width <= KEPT
    long, short = max(photo.height, photo.width), min(photo.height, photo.width)
    assert long / short == pytest.approx(4 / 3, rel=1e-3)
    (note,) = photo.notes
    assert note.key == "photo_reduced"
    assert note.values["before"] == ("9000 × 12000" if orientation == 6 else "6000 × 4500")
    assert note.values["after"] == f"{photo.width} × {photo.height}"
    # The bright quarter, top right as stored, is where it belongs.
    bright = (np.argwhere(photo.pixels[::50, ::50, 0] > 200) * 50).mean(axis=0)
    place = bright / (photo.height, photo.width)
    assert place == pytest.approx((0.75, 0.75) if orientation == 6 else (0.25, 0.75), abs=0.02)


@pytest.mark.parametrize("mode", ["P", "1", "RGBA", "CMYK", "L", "I", "F"])
def test_every_mode_is_made_smaller(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(photo_pixels, "KEPT", 1000)
    image = Image.fromarray(tiny_photo_array(40, 60)).convert("L" if mode in "IF" else "RGB")
    photo = load_photo(image.convert(mode))
    assert photo.pixels.shape == (25, 38, 3)
    assert keys(photo)[-1] == "photo_reduced"


def test_a_long_strip_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photo_pixels, "KEPT", 1000)
    photo = load_photo(np.full((1, 5000, 3), 5, np.uint8))
    assert photo.pixels.shape == (1, 1000, 3)
    assert keys(photo) == ["photo_reduced"]


def test_a_bomb_is_refused_from_its_header() -> None:
    before = Image.MAX_IMAGE_PIXELS
    sentence = refusal(png_header(20_000, 10_001))
    assert sentence.key == "photo_too_large"
    assert str(LARGEST // 1_000_000) in sentence
    assert refusal(png_header(2**31 - 1, 2**31 - 1)).key == "photo_too_large"
    # Just below the limit the header is accepted, and only then the data is missed.
    assert refusal(png_header(20_000, 10_000)).key == "photo_damaged"
    assert before == Image.MAX_IMAGE_PIXELS


def test_several_threads_load_at_once() -> None:
    array = tiny_photo_array(90, 130)
    sources = [encoded(array, kind) for kind in FORMATS] + [encoded_animation("GIF")]
    sources += [sixteen_bit("PNG"), png_header(20_000, 10_001), png_header(20_000, 9_000), b""]

    def outcome(source: object) -> object:
        try:
            photo = load_photo(source)
        except PhotoError as error:
            return str(error)
        return photo.sha256, photo.notes

    limit = Image.MAX_IMAGE_PIXELS
    serial = [outcome(source) for source in sources]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(outcome, sources * 6)) == serial * 6
    assert limit == Image.MAX_IMAGE_PIXELS
