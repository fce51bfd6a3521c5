"""Joining likes: agglomerative clustering with complete linkage, by SciPy."""

from __future__ import annotations

import numpy as np


def complete_linkage(distances: np.ndarray, threshold: float, most: int) -> tuple[np.ndarray, int]:
    """The cluster (0, 1, …) of each of n things, and how many there are at the threshold.

    distances: (n, n), symmetric but for rounding. The two nearest clusters are joined again
    and again, a cluster being as far from another as their two members farthest apart, while
    they are nearer than ``threshold``, and then on until no more than ``most`` are left.
    Clusters are numbered by their first members.
    """
    # SciPy's clustering takes a moment to import: only when it is asked for.
    from scipy.cluster.hierarchy import fcluster, linkage

    count = len(distances)
    if count < 2:
        return np.zeros(count, dtype=int), count
    tree = linkage(distances[np.triu_indices(count, 1)], "complete")
    labels = fcluster(tree, np.nextafter(threshold, -1), "distance")
    found = int(labels.max())
    if found > most:
        labels = fcluster(tree, most, "maxclust")
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    return first.argsort().argsort()[labels], found
