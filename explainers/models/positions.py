"""Where a token stands: the paper's ablation of position embeddings (its table 8)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Grid = tuple[int, int]
Positions = Literal["1d", "2d", "relative", "none"]


class NoPositions(nn.Module):
    """A bag of patches: nothing says where each one lay."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Add each token's position: (B, 1 + N, W) → the same shape."""
        return tokens

    def bias(self) -> Tensor | None:
        """What is added to the attention scores, (1, H, 1 + N, 1 + N), or None."""
        return None

    def at_grid(self, old: Grid, new: Grid) -> NoPositions:
        """The same for another grid (rows, columns), as a module of its own; see `resample`."""
        return self


class OneDimensional(NoPositions):
    """One learned vector a token, in reading order: the paper's default."""

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(1, 1 + rows * columns, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens + self.table

    def at_grid(self, old: Grid, new: Grid) -> NoPositions:
        return _with(OneDimensional(*new, self.table.shape[-1]), self, old, new)


class TwoDimensional(NoPositions):
    """Half a vector for the row and half for the column; CLS has a whole one of its own."""

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        half = width // 2
        self.rows = nn.Parameter(torch.empty(rows, half))
        self.columns = nn.Parameter(torch.empty(columns, width - half))
        self.cls = nn.Parameter(torch.empty(1, width))
        for parameter in self.parameters():
            nn.init.trunc_normal_(parameter, std=0.02)

    def table(self) -> Tensor:
        """The patches' positions (rows · columns, W)."""
        rows = self.rows[:, None].expand(-1, len(self.columns), -1)
        columns = self.columns[None].expand(len(self.rows), -1, -1)
        return torch.cat([rows, columns], -1).flatten(0, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens + torch.cat([self.cls, self.table()])

    def at_grid(self, old: Grid, new: Grid) -> NoPositions:
        return _with(TwoDimensional(*new, self.cls.shape[-1]), self, old, new)


class Relative(NoPositions):
    """A learned bias a head on attention, by the offset between query and key.

    Offsets with CLS have no direction; three entries of their own serve CLS to patch, patch to
    CLS, and CLS to itself.
    """

    offsets: Tensor

    def __init__(self, rows: int, columns: int, heads: int) -> None:
        super().__init__()
        count = (2 * rows - 1) * (2 * columns - 1)
        self.table = nn.Parameter(torch.empty(count + 3, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        row, column = row.flatten(), column.flatten()
        down = row[:, None] - row + rows - 1  # (N, N), 0 or more
        across = column[:, None] - column + columns - 1
        offsets = torch.empty((1 + len(row),) * 2, dtype=torch.long)
        offsets[1:, 1:] = down * (2 * columns - 1) + across
        offsets[0, 1:], offsets[1:, 0], offsets[0, 0] = count, count + 1, count + 2
        self.register_buffer("offsets", offsets, persistent=False)

    def bias(self) -> Tensor:
        return self.table[self.offsets].permute(2, 0, 1)[None]  # (1, H, 1 + N, 1 + N)

    def at_grid(self, old: Grid, new: Grid) -> NoPositions:
        return _with(Relative(*new, self.table.shape[-1]), self, old, new)


def make_positions(kind: Positions, rows: int, columns: int, width: int, heads: int) -> NoPositions:
    """The position module of a kind, for a grid of rows × columns patches and a CLS token."""
    if kind == "1d":
        return OneDimensional(rows, columns, width)
    if kind == "2d":
        return TwoDimensional(rows, columns, width)
    if kind == "relative":
        return Relative(rows, columns, heads)
    if kind == "none":
        return NoPositions()
    raise ValueError(f"positions must be one of 1d, 2d, relative, none; got {kind!r}")


CLS_OFFSETS = 3  # entries of a relative table that stand for CLS, after those of the offsets


def resample(name: str, values: Tensor, old: Grid, new: Grid, relative: bool = False) -> Tensor:
    """A parameter of positions for another grid; the very same tensor where the grid is.

    name: "table" (1, 1 + rows·columns, W), interpolated in two dimensions (Dosovitskiy et al.,
    section 3.2) as timm does it, CLS kept; a ``relative`` table is one of offsets instead;
    "rows" or "columns" (n, W/2), interpolated along themselves. Others stay.
    """
    if old == new or name not in ("table", "rows", "columns"):
        return values
    if name == "table":
        return _offsets(values, old, new) if relative else resample_table(values, old, new)
    length = new[0] if name == "rows" else new[1]
    if len(values) == length:
        return values
    line = values.T[None]  # (1, W/2, n)
    return F.interpolate(line, length, mode="linear", align_corners=False)[0].T


def resample_table(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """(1, 1 + N, W) → (1, 1 + new N, W); CLS stands first and is kept."""
    from timm.layers import resample_abs_pos_embed

    resized: Tensor = resample_abs_pos_embed(table, list(new), list(old), num_prefix_tokens=1)
    return resized


def _offsets(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """((2 rows − 1)(2 columns − 1) + 3, H) → the same for the new grid; offset 0 stays itself."""
    offsets, cls = table[:-CLS_OFFSETS], table[-CLS_OFFSETS:]
    plane = offsets.T.unflatten(1, (2 * old[0] - 1, 2 * old[1] - 1))[None]  # (1, H, …, …)
    shape = (2 * new[0] - 1, 2 * new[1] - 1)
    plane = F.interpolate(plane, shape, mode="bicubic", align_corners=True)
    return torch.cat([plane[0].flatten(1).T, cls])


def _with(target: NoPositions, source: NoPositions, old: Grid, new: Grid) -> NoPositions:
    """``target``, which is for the new grid, with the source's parameters resampled."""
    relative = isinstance(source, Relative)
    for name, parameter in source.named_parameters():
        values = resample(name, parameter.detach(), old, new, relative).contiguous()
        setattr(target, name, nn.Parameter(values, requires_grad=parameter.requires_grad))
    return target.to(next(source.parameters()).device)
