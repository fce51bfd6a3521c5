"""Photos: every usual kind of file becomes upright RGB pixels, or is refused in one sentence."""

from __future__ import annotations

import hashlib
import io
import struct
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from explainers import photo_pixels
from explainers.image import Photo, PhotoError, load_photo
from explainers.photo_files import LARGEST
from explainers.photo_pixels import KEPT
from explainers.sentence import Sentence
from tests.tiny import tiny_photo_array

ORIENTATION, GPS = 0x0112, 0x8825

STORED = {  # how a camera stores the upright picture, by the orientation it writes down
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: a.swapaxes(0, 1)[::-1],
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: a.swapaxes(0, 1)[:, ::-1],
}
FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "HEIF", "TIFF", "GIF", "BMP", "JPEG2000", "PPM")


def encoded(image: Image.Image | np.ndarray, kind: str = "PNG", **options: object) -> bytes:
    if kind == "HEIF":
        import pillow_heif

        pillow_heif.register_heif_opener()  # for writing; reading does not need it
    image = (
        image if isinstance(image, Image.Image) else Image.fromarray(np.ascontiguousarray(image))
    )
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def exif_with(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    exif[GPS] = {1: "N", 2: (48.0, 12.0, 30.0)}
    return exif.tobytes()


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"0" * 99))


def keys(photo: Photo) -> list[str]:
    return [note.key for note in photo.notes]


def refusal(source: object, name: str | None = None) -> Sentence:
    with pytest.raises(PhotoError) as caught:
        load_photo(source, name)
    (sentence,) = caught.value.args
    assert isinstance(sentence, Sentence)
    assert sentence.endswith(".")
    assert "; " in sentence, "says what to do"
    return sentence


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


# Colours


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


def sixteen_bit(mode: str) -> object:
    ramp = np.arange(65536).reshape(256, 256)
    if mode == "array":
        return ramp.astype(np.uint16)
    if mode == "PNG":
        return encoded(Image.fromarray(ramp.astype(np.uint16)), "PNG")
    if mode == "TIFF, big end first":
        data = ramp.astype(">u2").tobytes()
        return encoded(Image.frombytes("I;16B", (256, 256), data), "TIFF")
    return Image.fromarray(ramp.astype(np.int32))  # mode I


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


# Animations


def encoded_animation(kind: str) -> bytes:
    frames = [Image.new("RGB", (12, 8), colour) for colour in ("red", "lime", "blue")]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)


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


# What is no photo


@pytest.mark.parametrize(
    ("data", "key", "word"),
    [
        (b"", "photo_empty", "empty"),
        (b"hello, I am a text", "photo_unknown", "JPEG"),
        (bytes(500), "photo_unknown", "JPEG"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"></svg>', "photo_other_format", "SVG"),
        (b'<?xml version="1.0"?>\n<!-- x -->\n<svg></svg>', "photo_other_format", "SVG"),
        (b"<!DOCTYPE html><html></html>", "photo_other_format", "HTML"),
        (b"%PDF-1.7\n", "photo_other_format", "PDF"),
        (b"PK\x03\x04rest", "photo_other_format", "ZIP"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "photo_other_format", "MP4"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "photo_other_format", "JPEG XL"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "photo_other_format", "PostScript"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "photo_damaged", "damaged"),
        (b"\x89PNG\r\n\x1a\n", "photo_damaged", "damaged"),
        (b"GIF89a", "photo_damaged", "damaged"),
    ],
)
def test_files_that_are_no_photos(tmp_path: Path, data: bytes, key: str, word: str) -> None:
    path = tmp_path / "thing.jpg"
    path.write_bytes(data)
    sentence = refusal(path)
    assert sentence.key == key
    assert word in sentence
    assert "thing.jpg" in sentence
    assert str(tmp_path) not in sentence


@pytest.mark.parametrize("kind", FORMATS)
def test_photos_that_break_off(kind: str) -> None:
    data = encoded(tiny_photo_array(64, 64), kind)
    for share in (0.1, 0.3, 0.5, 0.8):
        assert refusal(data[: int(len(data) * share)]).key in ("photo_damaged", "photo_unknown")


@pytest.mark.parametrize("kind", FORMATS)
def test_damage_is_a_photo_error_or_a_photo(kind: str) -> None:
    random = np.random.default_rng(5)
    whole = np.frombuffer(encoded(tiny_photo_array(64, 64), kind), np.uint8)
    for _ in range(15):
        data = whole.copy()
        at = random.integers(len(data) // 2, len(data), 8)
        data[at] = random.integers(0, 256, 8)
        try:
            load_photo(data.tobytes())
        except PhotoError as error:
            assert error.args[0].key == "photo_damaged"  # noqa: PT017


def test_a_missing_heic_plug_in_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(tiny_photo_array(), "HEIF")
    assert load_photo(data).width == 60
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    sentence = refusal(data, "holiday.heic")
    assert sentence.key == "photo_heic_plugin"
    assert "holiday.heic" in sentence
    assert "HEIC" in sentence
    assert "pillow-heif" in sentence


def test_an_avif_without_its_decoder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(tiny_photo_array(), "AVIF")
    factory, _ = Image.OPEN["AVIF"]
    monkeypatch.setitem(Image.OPEN, "AVIF", (factory, lambda head: "not built in"))
    sentence = refusal(data)
    assert (sentence.key, sentence.values["format"]) == ("photo_other_format", "AVIF")


def test_an_avif_that_calls_itself_a_general_picture() -> None:
    data = bytearray(encoded(tiny_photo_array(), "AVIF"))
    data[8:12] = b"mif1"
    assert load_photo(data).width == 60


def test_paths_that_lead_to_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.jpg").key == "photo_missing"
    assert refusal("").key == "photo_missing"
    assert refusal(tmp_path).key == "photo_folder"
    assert refusal("https://example.org/cat.jpg").key == "photo_address"
    assert refusal("nul\0byte.jpg").key == "photo_closed"
    if Path("/dev/zero").exists():
        assert refusal("/dev/zero").key == "photo_closed"


@pytest.mark.parametrize("source", [None, 3, [1, 2], {"path": "x"}])
def test_things_that_are_no_source(source: object) -> None:
    sentence = refusal(source)
    assert sentence.key == "photo_source"
    assert type(source).__name__ in sentence


def test_a_file_opened_as_text(tmp_path: Path) -> None:
    assert refusal(io.StringIO("text")).key == "photo_text_stream"


class Broken(io.BytesIO):
    def read(self, *_: object) -> bytes:
        raise ZeroDivisionError


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    closed = io.BytesIO(b"x")
    closed.close()
    with (tmp_path / "new.png").open("wb") as writing:
        for source in (closed, writing, Broken(b"x")):
            assert refusal(source).key == "photo_unreadable"


def test_pillow_does_not_warn_on_the_error_stream(tmp_path: Path) -> None:
    cut = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x04\0\0\xff\xff"
    path = tmp_path / "cut.jpg"
    path.write_bytes(encoded(tiny_photo_array(), "JPEG", exif=cut))
    code = f"from explainers.image import load_photo; load_photo({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_closed_picture_is_said_to_be_closed() -> None:
    image = Image.fromarray(tiny_photo_array())
    image.close()
    with pytest.raises(PhotoError, match="was closed before it was given; open it again"):
        load_photo(image)


def test_an_endless_name_is_cut() -> None:
    assert len(load_photo(tiny_photo_array(), "x" * 5000).name) == 255
