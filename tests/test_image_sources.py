"""Ways of giving a photo: the same upright pixels, and nothing private that survives."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from explainers.image import Photo, PhotoError, load_photo
from tests.photo_files import GPS, STORED, encoded, encoded_animation, exif_with, keys, refusal
from tests.tiny import tiny_photo_array

# Ways of giving a photo


def test_every_way_of_giving_a_photo_gives_the_same_pixels(tmp_path: Path) -> None:
    array = tiny_photo_array()
    data = encoded(array)
    path = tmp_path / "cat.png"
    path.write_bytes(data)

    class Stream:  # can be read once and not rewound, like a download
        def read(self, size: int = -1) -> bytes:
            return data if size else b""

    with path.open("rb") as file:
        file.seek(7)
        sources = [path, str(path), data, bytearray(data), memoryview(data), file, Stream()]
        sources += [Image.open(path), Image.fromarray(array), array]
        photos = [load_photo(source) for source in sources]
        assert not file.closed
    for photo in photos:
        assert np.array_equal(photo.pixels, array)
        assert photo.pixels.dtype == np.uint8
        assert not photo.pixels.flags.writeable
        assert (photo.height, photo.width, photo.notes) == (40, 60, ())
        assert photo.sha256 == photos[0].sha256
    assert load_photo(photos[0]) is photos[0]


def test_names_never_hold_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "my {cat}.png"
    path.write_bytes(encoded(tiny_photo_array()))
    with path.open("rb") as file:
        named = [path, str(path), file, Image.open(path)]
        assert {load_photo(source).name for source in named} == {"my {cat}.png"}
    array = tiny_photo_array()
    assert load_photo(encoded(array)).name == load_photo(array).name == "photo"
    assert load_photo(array, "/home/someone/a.jpg").name == "a.jpg"
    assert load_photo(array, "C:\\Users\\someone\\a.jpg").name == "a.jpg"
    assert load_photo(load_photo(array), "folder/b.jpg").name == "b.jpg"
    assert load_photo(array, "a\nb\0.jpg").name == "a b .jpg"
    assert "someone" not in refusal("/home/someone/none.jpg")


def test_what_the_caller_holds_is_left_alone() -> None:
    array = tiny_photo_array()
    kept = array.copy()
    photo = load_photo(array)
    array[:] = 0
    assert np.array_equal(photo.pixels, kept)
    assert array.flags.writeable
    animation = Image.open(io.BytesIO(encoded_animation("GIF")))
    animation.seek(1)
    photo = load_photo(animation)
    assert animation.tell() == 1
    assert photo.notes[0].values == {"frames": 3, "frame": 2}


def test_the_hash_is_of_pixels_and_size() -> None:
    pixels = np.arange(18, dtype=np.uint8)
    wide, high = load_photo(pixels.reshape(2, 3, 3)), load_photo(pixels.reshape(3, 2, 3))
    assert wide.sha256 == hashlib.sha256(b"2 3 " + pixels.tobytes()).hexdigest()
    assert wide.sha256 != high.sha256
    array = tiny_photo_array()
    turned = encoded(STORED[6](array), exif=exif_with(6))
    assert load_photo(turned).sha256 == load_photo(array).sha256


def test_pixels_given_directly_are_checked() -> None:
    with pytest.raises(PhotoError, match="load_photo"):
        Photo(np.zeros((4, 4), np.uint8))
    with pytest.raises(PhotoError, match="float64"):
        Photo(np.zeros((4, 4, 3)))


# Which way is up


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG", "WEBP", "AVIF", "HEIF"])
def test_photos_are_turned_upright(kind: str, orientation: int) -> None:
    upright = np.zeros((32, 48, 3), np.uint8)
    upright[:16, :24], upright[:16, 24:], upright[16:, :24] = (250, 0, 0), (0, 250, 0), (0, 0, 250)
    photo = load_photo(encoded(STORED[orientation](upright), kind, exif=exif_with(orientation)))
    assert photo.pixels.shape == upright.shape
    assert photo.notes == ()
    difference = np.abs(photo.pixels.astype(int) - upright)
    assert difference.max() == 0 if kind in ("PNG", "TIFF") else difference.mean() < 6


@pytest.mark.parametrize(
    "data",
    [
        b"garbage garbage garbage",
        b"II*\0\x08\0\0\0",  # no directory
        b"II*\0\xff\xff\0\0",  # a directory beyond the end
        b"II*\0\x08\0\0\0\x05\0\x12\x01\x03\0\x01\0",  # breaks off in its first entry
        b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x63\0\0\0\0\0\0\0",  # orientation 99
        b"II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\x04\0\0\0abc\0\0\0\0\0",  # orientation "abc"
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_broken_exif_leaves_the_photo_as_stored(kind: str, data: bytes) -> None:
    array = tiny_photo_array()
    photo = load_photo(encoded(array, kind, exif=b"Exif\0\0" + data))
    assert photo.pixels.shape == array.shape
    assert keys(photo) == ["photo_broken_exif"]


def test_exif_that_says_nothing_is_no_fault() -> None:
    for data in (b"Exif\0\0", b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"):
        assert load_photo(encoded(tiny_photo_array(), exif=data)).notes == ()


def test_place_and_camera_do_not_survive() -> None:
    data = encoded(tiny_photo_array(), exif=exif_with(1), icc_profile=b"profile of someone")
    assert Image.open(io.BytesIO(data)).getexif().get_ifd(GPS)
    image = load_photo(data).to_pil()
    assert image.info == {}
    assert not image.getexif()
    again = encoded(image)
    assert b"eXIf" not in again
    assert b"iCCP" not in again
