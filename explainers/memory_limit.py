"""No look is taken that the free memory does not allow."""

from __future__ import annotations

from explainers.forecast import MEGA, Forecast, figures
from explainers.free_memory import free_bytes
from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.sizes import whole_size
from explainers.models.vision_model import VisionModel
from explainers.pace import Pace
from explainers.sentence import Sentence

SHARE = 0.8
"""The part of the free memory that a look may take."""


def demand_memory(
    vit: VisionModel, photo: Photo, pace: Pace, wanted: Forecast, free: int | None = None
) -> None:
    """Raise ModelError where a look would take over 80 % of the free memory.

    The sentence proposes the largest long side of a whole look that fits. free: bytes, measured
    where None.
    """
    if free is None:
        free = free_bytes(vit.device)
    if free is None or wanted.bytes <= SHARE * free:
        return
    largest = largest_long_side(vit, photo, pace, SHARE * free)
    values = {"needed": figures(wanted.bytes / MEGA), "free": figures(free / MEGA)}
    if largest is None:
        raise ModelError(
            Sentence(
                "memory_none",
                "This look would take about {needed} MB, and of memory {free} MB are free: not "
                "even the smallest one fits. Close other programs, or take a smaller model.",
                **values,
            )
        )
    raise ModelError(
        Sentence(
            "memory_large",
            "This look would take about {needed} MB, more than 80 % of the {free} MB of memory "
            "that are free; the largest that fits is a long side of {largest} pixels.",
            largest=largest,
            **values,
        )
    )


def largest_long_side(vit: VisionModel, photo: Photo, pace: Pace, room: float) -> int | None:
    """The longest side, in whole patches, of a look at the whole photo in ``room`` bytes."""
    patch = max((vit.native or vit).adapter.patch)

    def fits(patches: int) -> bool:
        size = whole_size(photo, vit.adapter.patch, patches * patch)
        tokens = pace.prefix + size[0] * size[1] // (vit.adapter.patch[0] * vit.adapter.patch[1])
        held = pace.kept_bytes(tokens) + pace.beside * tokens
        return held + pace.beside_pixel * size[0] * size[1] <= room

    if not fits(1):
        return None
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:  # low fits, high does not
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * patch
