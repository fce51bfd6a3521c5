"""Heat maps on random photos, as they are drawn: whole, cut out of the middle, hot in one cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from explainers.heatmap import HeatMap, Kind, Target
from explainers.image import Geometry, Photo
from explainers.sentence import Sentence

GRID = (4, 5)
PATCH = 8


def random_photo(height: int = 60, width: int = 90, seed: int = 0) -> Photo:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Photo(pixels, "noise.png")


def centre_crop(photo: Photo, grid: tuple[int, int] = GRID) -> Geometry:
    """A window of grid · 8 pixels in the middle of the photo resized to 5/4 of its sides."""
    size = (grid[0] * PATCH, grid[1] * PATCH)
    scale = 1.25 * max(size[0] / photo.height, size[1] / photo.width)
    resized = (round(photo.height * scale), round(photo.width * scale))
    offset = ((resized[0] - size[0]) // 2, (resized[1] - size[1]) // 2)
    return Geometry((photo.height, photo.width), resized, offset, size, (PATCH, PATCH))


def whole(photo: Photo, grid: tuple[int, int] = GRID) -> Geometry:
    """The whole photo squashed into the model's input."""
    size = (grid[0] * PATCH, grid[1] * PATCH)
    return Geometry((photo.height, photo.width), size, (0, 0), size, (PATCH, PATCH))


def heat_map(
    values: np.ndarray,
    signed: bool = False,
    kind: Kind = "grid",
    photo: Photo | None = None,
    geometry: Geometry | None = None,
    **changes: Any,
) -> HeatMap:
    photo = photo or random_photo()
    heat = HeatMap(
        values=np.asarray(values, dtype=np.float32),
        kind=kind,
        signed=signed,
        method="rollout",
        title="Rollout",
        meaning="where it looked",
        photo=photo,
        geometry=geometry or centre_crop(photo),
        target=Target(1, "tabby, tabby cat", 0.7),
        against=None,
        parameters={"start": 0},
        prefix_share=0.04,
        figures={"error": 0.5},
        notes=(Sentence("a_note", "A note."),),
        provenance={"model": "tiny – é", "photo": photo.sha256, "seed": np.int64(3)},
    )
    return replace(heat, **changes)


def hot(row: int, column: int, grid: tuple[int, int] = GRID) -> np.ndarray:
    values = np.zeros(grid)
    values[row, column] = 1
    return values


def brightness(table: np.ndarray) -> np.ndarray:
    return table @ np.array([0.2126, 0.7152, 0.0722])
