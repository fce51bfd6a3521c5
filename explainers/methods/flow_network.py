"""Attention as pipes: the layered network that attention flow runs through, solved exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

_UNIT = 2**30
"""What a capacity of 1 is to the solver, which counts in whole 32-bit numbers. No flow exceeds
1, so nothing overflows."""


@dataclass(frozen=True)
class Network:
    """A source, and one layer of n nodes more than there are matrices; node 0 is the source.

    tails, heads, capacities: the edges. An edge from node i of one layer to node j of the next
    lower one has the capacity matrix[i, j]; the source feeds the top layer.
    """

    nodes: int
    bottom: int  # the first node of the lowest layer
    tails: np.ndarray
    heads: np.ndarray
    capacities: np.ndarray

    @classmethod
    def of(cls, matrices: Sequence[np.ndarray], start: np.ndarray) -> Network:
        """matrices: (n, n) each, from the top block down; start: the source's edges (n,)."""
        n = len(start)
        rows, columns = np.divmod(np.arange(n * n), n)
        tails, heads = [np.zeros(n, dtype=int)], [1 + np.arange(n)]
        for layer in range(len(matrices)):
            tails.append(1 + layer * n + rows)
            heads.append(1 + (layer + 1) * n + columns)
        return cls(
            nodes=1 + (len(matrices) + 1) * n,
            bottom=1 + len(matrices) * n,
            tails=np.concatenate(tails),
            heads=np.concatenate(heads),
            capacities=np.concatenate([start, *(matrix.ravel() for matrix in matrices)]),
        )

    @cached_property
    def _graph(self) -> Any:
        # SciPy's graphs take a third of a second to import: only when flow is asked for.
        from scipy.sparse import csr_matrix

        whole = np.rint(self.capacities * _UNIT).astype(np.int32)
        return csr_matrix((whole, (self.tails, self.heads)), shape=(self.nodes, self.nodes))

    def flow_into(self, node: int) -> float:
        """The largest flow from the source to a node of the lowest layer, 0..1.

        The solver's capacities are rounded, so only its minimum cut is taken: the capacities
        across the cut add up, unrounded, to the flow.
        """
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        flow = maximum_flow(self._graph, 0, self.bottom + node).flow
        unfilled = (self._graph - flow) > 0
        reached = np.zeros(self.nodes, dtype=bool)
        reached[breadth_first_order(unfilled, 0, return_predecessors=False)] = True
        cut = reached[self.tails] & ~reached[self.heads]
        return float(self.capacities[cut].sum())
