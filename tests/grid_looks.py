"""A photo, and models of several grids, ready to look at it."""

from __future__ import annotations

from typing import Any

from explainers import VisionModel, load_photo, wrap_model
from tests.grid_families import grid_model, size_of
from tests.tiny import tiny_photo_array

PHOTO = load_photo(tiny_photo_array())


def wrapped(family: str, **given: Any) -> VisionModel:
    return wrap_model(grid_model(family, **given), size=size_of(family))
