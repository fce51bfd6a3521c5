"""Whether two maps put the same places first."""

from __future__ import annotations

import numpy as np


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's correlation of two maps of the same shape, in −1..1; 0 where one is constant."""
    first, second = _ranks(one), _ranks(other)
    first, second = first - first.mean(), second - second.mean()
    length = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / length if length else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value, equal values sharing the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[group.ravel()]
