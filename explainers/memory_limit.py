"""No look is taken that the free memory does not allow."""

from __future__ import annotations

from collections.abc import Callable

from explainers.forecast import (
    MEGA,
    Forecast,
    figures,
    pass_bytes,
    resizing_bytes,
    whole_bytes,
    windows_bytes,
)
from explainers.free_memory import free_bytes
from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.sizes import whole_size
from explainers.models.vision_model import VisionModel
from explainers.pace import Pace
from explainers.sentence import Sentence
from explainers.separate_looks import SeparateLooks

SHARE = 0.8
"""The part of the free memory that a look may take."""


def demand_memory(
    vit: VisionModel, photo: Photo, pace: Pace, wanted: Forecast, free: int | None = None
) -> None:
    """Raise ModelError where a look would take over 80 % of the free memory.

    The sentence proposes the largest long side that fits: of windows where ``wanted`` is of
    some, else of a whole look. free: bytes, measured where None.
    """
    if free is None:
        free = free_bytes(vit.device)
    if free is None or wanted.bytes <= SHARE * free:
        return
    native, room = vit.native or vit, SHARE * free
    if wanted.looks > 1:
        largest = largest_windows(native, photo, pace, room)
    else:
        largest = largest_long_side(native, photo, pace, room)
    values = {"needed": figures(wanted.bytes / MEGA), "free": figures(free / MEGA)}
    if largest is not None:
        raise ModelError(
            Sentence(
                "memory_large",
                "This look would take about {needed} MB, more than 80 % of the {free} MB of "
                "memory that are free; the largest that fits is a long side of {largest} pixels.",
                largest=largest,
                **values,
            )
        )
    smallest = whole_size(photo, native.adapter.patch, max(native.adapter.patch))
    if pass_bytes(native, pace, smallest) <= room < resizing_bytes(photo, smallest):
        raise ModelError(
            Sentence(
                "memory_photo",
                "This look would take about {needed} MB, and of memory {free} MB are free: too "
                "few to resize a photo of {width}×{height} pixels. Close other programs, or make "
                "the photo smaller.",
                width=photo.width,
                height=photo.height,
                **values,
            )
        )
    raise ModelError(
        Sentence(
            "memory_none",
            "This look would take about {needed} MB, and of memory {free} MB are free: not "
            "even the smallest one fits. Close other programs, or take a smaller model.",
            **values,
        )
    )


def largest_long_side(vit: VisionModel, photo: Photo, pace: Pace, room: float) -> int | None:
    """The longest side, in whole patches, of a look at the whole photo in ``room`` bytes."""
    native = vit.native or vit
    patch = native.adapter.patch

    def fits(patches: int) -> bool:
        size = whole_size(photo, patch, patches * max(patch))
        return whole_bytes(native, photo, pace, size) <= room

    return _largest(fits, max(patch))


def largest_windows(vit: VisionModel, photo: Photo, pace: Pace, room: float) -> int | None:
    """The longest side, in whole patches, of a photo whose windows fit in ``room`` bytes."""
    native = vit.native or vit
    patch = max(native.adapter.patch)

    def fits(patches: int) -> bool:
        try:
            looks = SeparateLooks(native, photo, patches * patch)
        except ModelError:  # too many windows
            return False
        return windows_bytes(looks, pace) <= room

    return _largest(fits, patch)


def _largest(fits: Callable[[int], bool], patch: int) -> int | None:
    """The most patches that fit, as pixels; fits() is true up to them and false beyond."""
    if not fits(1):
        return None
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:  # low fits, high does not
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * patch
