"""How a family cuts a grid of cells into windows: which cell lies in which slot of which window.

All answers are tables (windows, slots) of cell numbers in reading order; −1 is a slot of
padding. Windows come in the order of the model's own batch: left to right, then down.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

Grid = tuple[int, int]


def whole(grid: Grid) -> Tensor:
    """One window over the whole grid (1, h·w)."""
    return torch.arange(grid[0] * grid[1])[None]


def windows(grid: Grid, window: Grid, shift: Grid = (0, 0), pad_first: bool = False) -> Tensor:
    """Windows of window = (rows, columns) cells side by side, after a cyclic shift up and left.

    A grid that is no multiple of the window is padded below and to the right, after the shift
    (timm) or before it (``pad_first``: torchvision). Swin (Liu et al., ICCV 2021), section 3.2.
    """
    cells = torch.arange(grid[0] * grid[1]).reshape(grid)
    moves = (-shift[0], -shift[1])
    if not pad_first:
        cells = cells.roll(moves, (0, 1))
    below, right = (-side % wide for side, wide in zip(grid, window, strict=True))
    cells = F.pad(cells, (0, right, 0, below), value=-1)
    if pad_first:
        cells = cells.roll(moves, (0, 1))
    rows, columns = cells.shape[0] // window[0], cells.shape[1] // window[1]
    cut = cells.reshape(rows, window[0], columns, window[1]).transpose(1, 2)
    return cut.reshape(rows * columns, window[0] * window[1])


def lattices(grid: Grid, size: Grid) -> Tensor:
    """size = (rows, columns) cells spread evenly over the grid: MaxViT's grid attention.

    Tu et al., MaxViT, ECCV 2022, section 3.2. The grid is a multiple of the size.
    """
    rows, columns = grid[0] // size[0], grid[1] // size[1]
    cells = torch.arange(grid[0] * grid[1]).reshape(size[0], rows, size[1], columns)
    return cells.permute(1, 3, 0, 2).reshape(rows * columns, size[0] * size[1])


def unrolled(grid: Grid, strides: Sequence[Grid]) -> Tensor:
    """The order of Hiera's tokens (1, h·w): cell numbers, as its stem unrolls them.

    The cells at one place of every square of the first strides' size stand together, within
    these those of the second, and so on: pooling a square is pooling over a leading axis. Ryali
    et al., Hiera, ICML 2023.
    """
    cells = torch.arange(grid[0] * grid[1]).reshape(1, *grid)
    for down, across in strides:
        count, rows, columns = cells.shape
        cut = cells.reshape(count, rows // down, down, columns // across, across)
        cells = cut.permute(0, 2, 4, 1, 3).reshape(-1, rows // down, columns // across)
    return cells.reshape(1, -1)
