"""Where windows are laid over a photo, and how large the photo is made for them."""

from __future__ import annotations

import math

from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.sizes import whole_size
from explainers.models.vision_model import VisionModel
from explainers.scalars import shown, whole_number
from explainers.sentence import Sentence

OVERLAP = 0.25
"""The least part of its side that a window shares with the next one."""

MOST = 100
"""Windows of one photo; beyond them nobody finds a label in its corner."""


def starts(whole: int, cells: int, overlap: float) -> list[int]:
    """First cells of windows of ``cells`` cells that cover ``whole`` cells, evenly spread.

    Neighbours share at least ``overlap`` of their cells, rounded up.
    """
    if whole <= cells:
        return [0]
    shared = min(math.ceil(overlap * cells), cells - 1)
    count = math.ceil((whole - shared) / (cells - shared))
    return [round(i * (whole - cells) / (count - 1)) for i in range(count)]


def windowed_long_side(
    model: VisionModel, photo: Photo, long_side: int | None, overlap: float = OVERLAP
) -> int:
    """The long side, in pixels, of the photo that windows are cut from; never below a window's."""
    sides = zip(model.preprocessing.size, (photo.height, photo.width), strict=True)
    least = max(window / side for window, side in sides) * max(photo.height, photo.width)
    if long_side is None:
        return math.ceil(least * (2 - overlap))
    asked, window = whole_number(long_side), max(model.preprocessing.size)
    if asked is not None and asked > MOST * window:  # before anything of that size is laid out
        raise too_many(asked // window)
    whole_size(photo, model.adapter.patch, long_side)  # refuses what is no number of pixels
    return max(int(long_side), math.ceil(least))


def too_many(count: int) -> ModelError:
    """The refusal of more than `MOST` windows."""
    return ModelError(
        Sentence(
            "windows_many",
            "That would be {count} windows, and at most {most} are looked through; take a "
            "shorter long side.",
            count=shown(count),
            most=MOST,
        )
    )
