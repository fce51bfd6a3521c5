"""Photos as files: encoded in any format, stored turned, animated; and how they are refused."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from explainers.image import Photo, PhotoError, load_photo
from explainers.sentence import Sentence

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


def encoded_animation(kind: str) -> bytes:
    frames = [Image.new("RGB", (12, 8), colour) for colour in ("red", "lime", "blue")]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)
