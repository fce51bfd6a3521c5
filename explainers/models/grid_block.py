"""One attention layer of a model of several grids: which cells it looks from and at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from explainers.models.feature_map import Grid

Reshape = Callable[[Tensor], Tensor]


def as_it_is(tensor: Tensor) -> Tensor:
    return tensor


@dataclass(frozen=True)
class GridBlock:
    """One attention layer.

    projection: the layer that reads its merged heads. queries (W, n), keys (W, m): the cell in
    each slot of each window, of the grids ``rows`` and ``columns`` (see `windows`). prefix:
    tokens before the cells, in both; such a layer has one window. fold: q, k or v as the layer
    computes them → (B·W, H, n, D). received: what the projection is given → (B·W, n, H·D).
    cropped: whether slots of padding are cut off before the projection, not after it.
    query_scale: where the layer adds its queries to what the heads found, what it multiplied
    them with before their product with the keys; None where it adds nothing.
    """

    projection: nn.Module
    heads: int
    rows: Grid
    columns: Grid
    queries: Tensor
    keys: Tensor
    prefix: int = 0
    fold: Reshape = as_it_is
    received: Reshape = as_it_is
    cropped: bool = False
    query_scale: float | None = None
