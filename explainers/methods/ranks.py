"""Whether two maps put the same places first."""

from __future__ import annotations

import numpy as np


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rank correlation of two maps (−1..1), equal values sharing their mean rank.

    Two even maps are alike (1); one even map says nothing of the other (0).
    """
    a, b = (_ranks(values) for values in (first, second))
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else float(not a.any() and not b.any())


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place.ravel()]
