"""From whatever holds a picture to upright 8-bit RGB pixels, saying what was changed on the way.

Nothing but pixels goes on from here: no EXIF, no place of taking, no colour profile.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
from PIL import Image

from explainers.photo_files import PhotoError, check_size, damaged
from explainers.photo_orientation import upright_turn
from explainers.sentence import Sentence

logger = logging.getLogger(__name__)

KEPT = 25_000_000
"""A picture of more pixels than this is made smaller on load; explanations gain nothing by more."""

_WIDE = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")


def pixels_of_image(
    image: Image.Image, name: str, ours: bool = False
) -> tuple[np.ndarray, tuple[Sentence, ...]]:
    """Upright RGB (H, W, 3) uint8 of a Pillow image, and the notes on what was done to it.

    ours: nobody else holds ``image``, so a JPEG decoder may skip what would be thrown away.
    """
    check_size(*image.size, name=name)
    notes: list[Sentence] = []
    try:
        _note_frames(image, notes)
        before, kept = image.size, _kept_size(image.size)
        if ours and image.format in ("JPEG", "MPO") and kept != before:
            image.draft(None, kept)
        image.load()
        turn = upright_turn(image, notes)
        rgb = _smaller(_rgb(image, name, notes))
        upright = rgb if turn is None else rgb.transpose(turn)
        if kept != before:
            turned = upright.size != rgb.size
            notes.append(_smaller_note(before[::-1] if turned else before, upright.size))
        return np.array(upright), tuple(notes)
    except (PhotoError, MemoryError):
        raise
    except Exception as error:  # decoders raise nearly anything on damaged data
        logger.debug("%s was not decoded", name, exc_info=True)
        if "closed image" in str(error):  # Pillow has no other sign of it
            raise PhotoError(
                Sentence(
                    "photo_image_closed",
                    "The picture {name} was closed before it was given; open it again, and close "
                    "it afterwards.",
                    name=name,
                )
            ) from error
        raise damaged(name) from error


def pixels_of_array(array: np.ndarray, name: str) -> tuple[np.ndarray, tuple[Sentence, ...]]:
    """RGB (H, W, 3) uint8 of an array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), and the notes."""
    if np.ma.getmaskarray(array).any():
        raise PhotoError(
            Sentence(
                "photo_masked",
                "Every value must be given, and some of {name} are masked; fill them first, for "
                "example with array.filled(0).",
                name=name,
            )
        )
    array = np.asarray(array)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise PhotoError(
            Sentence(
                "photo_array_shape",
                "An array of shape (height, width), (height, width, 3) or (height, width, 4) was "
                "expected, and {name} has shape {shape}; put the colours last.",
                name=name,
                shape=array.shape,
            )
        )
    check_size(array.shape[1], array.shape[0], name)
    notes: list[Sentence] = []
    levels = np.ascontiguousarray(_levels(array, name, notes))
    pixels, more = pixels_of_image(Image.fromarray(levels), name)
    return pixels, (*notes, *more)


def _note_frames(image: Image.Image, notes: list[Sentence]) -> None:
    # An MPO holds one photo and its previews or depth; it is no animation.
    if image.format == "MPO" or not getattr(image, "is_animated", False):
        return
    notes.append(
        Sentence(
            "photo_animated",
            "The file holds {frames} pictures; picture {frame} is used.",
            frames=getattr(image, "n_frames", 1),
            frame=image.tell() + 1,
        )
    )


def _rgb(image: Image.Image, name: str, notes: list[Sentence]) -> Image.Image:
    """RGB of any mode: grey levels spread to 256, transparency on white."""
    if image.mode in _WIDE:
        values = np.asarray(image)
        if image.mode == "I" and values.min() >= 0 and values.max() <= 65535:
            values = values.astype(np.uint16)  # how 16-bit files arrive in 32-bit images
        return _converted(Image.fromarray(_levels(values, name, notes)), "RGB", name)
    if not image.has_transparency_data:
        # Averaging needs real colours, not palette entries; one channel is cheaper than three.
        image = _smaller(image) if image.mode in ("L", "CMYK", "YCbCr") else image
        return _converted(image, "RGB", name)
    clear = _smaller(_converted(image, "RGBA", name))
    alpha = clear.getchannel("A")
    opaque = clear.convert("RGB")
    if alpha.getextrema() == (255, 255):
        return opaque
    notes.append(
        Sentence("photo_transparent", "Transparent parts of the picture are shown on white.")
    )
    white = Image.new("RGB", clear.size, "white")
    white.paste(opaque, mask=alpha)
    return white


def _converted(image: Image.Image, mode: str, name: str) -> Image.Image:
    if image.mode == mode:
        return image
    try:
        return image.convert(mode)
    except ValueError as error:
        raise PhotoError(
            Sentence(
                "photo_colours",
                "The picture {name} holds {mode} colours, which are not converted; save it in RGB.",
                name=name,
                mode=image.mode,
            )
        ) from error


def _levels(values: np.ndarray, name: str, notes: list[Sentence]) -> np.ndarray:
    """uint8 of the same shape: whatever the range of ``values``, nothing is clipped."""
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * np.uint8(255)
    if values.dtype.kind not in "iuf":
        raise PhotoError(
            Sentence(
                "photo_array_type",
                "Whole or real numbers were expected, and {name} holds {dtype}; convert it first.",
                name=name,
                dtype=values.dtype,
            )
        )
    if values.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
            values = values.astype(np.float64)
    low, high = values.min(), values.max()
    if not (math.isfinite(low) and math.isfinite(high)):
        raise PhotoError(
            Sentence(
                "photo_not_finite",
                "All values of {name} must be finite numbers, and {count} are not; "
                "replace them first.",
                name=name,
                count=int(np.size(values) - np.isfinite(values).sum()),
            )
        )
    start, end = _range(values.dtype, float(low), float(high))
    if values.dtype.kind == "f" or end != 255.0:
        notes.append(
            Sentence(
                "photo_levels",
                "The values {low} to {high} are shown as 256 levels from {start} to {end}.",
                low=f"{float(low):.6g}",
                high=f"{float(high):.6g}",
                start=f"{start:.6g}",
                end=f"{end:.6g}",
            )
        )
    # A power of two changes no digit, and neither the largest nor the smallest numbers overflow.
    unit = math.ldexp(1.0, math.frexp(max(abs(start), abs(end)))[1] - 1)
    span = (end / unit - start / unit) or 1.0
    work: Any = values.astype(np.float64 if values.dtype.itemsize > 2 else np.float32)
    return np.rint((work / unit - start / unit) * (255.0 / span)).astype(np.uint8)


def _range(dtype: np.dtype[Any], low: float, high: float) -> tuple[float, float]:
    """Which values are black and white: the usual ranges where they hold all values."""
    usual: tuple[float, ...]
    if dtype.kind == "f":
        usual = (1.0, 255.0)
    elif dtype.itemsize == 2 and dtype.kind == "u":
        usual = (65535.0,)
    else:
        usual = (255.0, 65535.0)
    for end in usual:
        if low >= 0.0 and high <= end:
            return 0.0, end
    return low, high


def _kept_size(size: tuple[int, int]) -> tuple[int, int]:
    """(width, height) of at most `KEPT` pixels, of the same shape as far as that goes."""
    width, height = size
    if width * height <= KEPT:
        return size
    share = math.sqrt(KEPT / (width * height))
    short = max(1, int(min(size) * share))
    long = min(int(max(size) * share), KEPT // short)
    return (long, short) if width >= height else (short, long)


def _smaller(image: Image.Image) -> Image.Image:
    size = _kept_size(image.size)
    if size == image.size:
        return image
    return image.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)


def _smaller_note(before: tuple[int, int], after: tuple[int, int]) -> Sentence:
    return Sentence(
        "photo_reduced",
        "The picture was made smaller on load, from {before} to {after} pixels.",
        before=f"{before[0]} × {before[1]}",
        after=f"{after[0]} × {after[1]}",
    )
