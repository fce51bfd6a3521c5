"""Orders of patches: a map's own, random ones, and the centre first."""

from __future__ import annotations

import numpy as np

from explainers.heatmap import HeatMap
from explainers.models.errors import ModelError
from explainers.sentence import Sentence

SEED = 20260101
"""Of every draw in the measures; each use adds its own number to it."""

TIES, ORDERS, WEIGHTS = range(3)
"""Which draw a generator serves: equal patches, random orders, random weights."""


def patch_values(heat: HeatMap) -> np.ndarray:
    """The map's value of each patch, float64 (h, w): a map of pixels is summed over patches.

    Raises ModelError for a map of colours, which puts patches in no order.
    """
    values = heat.values.astype(np.float64)
    if heat.kind == "rgb":
        raise ModelError(
            Sentence(
                "measure_no_order",
                "{title} shows colours, which put the patches in no order, so there is nothing "
                "to measure.",
                title=heat.title,
            )
        )
    if heat.kind == "grid":
        return values
    (rows, columns), (height, width) = heat.geometry.grid, heat.geometry.patch
    whole = values[: rows * height, : columns * width]
    return whole.reshape(rows, height, columns, width).sum((1, 3))


def best_first(values: np.ndarray) -> np.ndarray:
    """Patch numbers (h·w,), the highest value first.

    Equal values (many maps clip at zero) follow each other in an order drawn once for all maps:
    reading order would favour the top of the photo.
    """
    flat = values.ravel()
    drawn = np.random.default_rng([SEED, TIES]).permutation(flat.size)
    return drawn[np.argsort(-flat[drawn], kind="stable")]


def centre_first(grid: tuple[int, int], patch: tuple[int, int]) -> np.ndarray:
    """Patch numbers by the distance of their centres from the middle of the model's input."""
    y, x = ((np.arange(n) - (n - 1) / 2) * side for n, side in zip(grid, patch, strict=True))
    return best_first(-(y[:, None] ** 2 + x**2))


def random_order(patches: int, number: int) -> np.ndarray:
    """The ``number``-th of the random orders, the same for every map and photo."""
    return np.random.default_rng([SEED, ORDERS, number]).permutation(patches)
