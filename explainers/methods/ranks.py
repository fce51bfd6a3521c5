"""Whether two maps put the same places first."""

from __future__ import annotations

import numpy as np


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rank correlation of two maps (−1..1), equal values sharing their mean rank.

    Two even maps are alike (1); one even map says nothing of the other (0).
    """
    a, b = (ranks(values) for values in (first, second))
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else float(not a.any() and not b.any())


def ranks(values: np.ndarray) -> np.ndarray:
    """Each value's place from the smallest, 1, to the largest, their number; ties share the mean.

    values: any shape; returns (number of values,), in the order of ``values.ravel()``.
    """
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place.ravel()]
