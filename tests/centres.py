"""Where a picture has its centre of mass, and what its cells show."""

from __future__ import annotations

import numpy as np


def centroid(weights: np.ndarray) -> tuple[float, float]:
    """(x, y) of the centre of mass, pixel centres at halves; what is not seen weighs nothing."""
    weights = np.nan_to_num(weights)
    y, x = np.mgrid[0 : weights.shape[0], 0 : weights.shape[1]] + 0.5
    return float((x * weights).sum() / weights.sum()), float((y * weights).sum() / weights.sum())
