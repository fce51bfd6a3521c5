"""An attention call inside windows, answered as rows over the whole grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from explainers.attention_call import AttentionCall

_CHUNK = 2**21  # numbers in one chunk of attention rows: 8 MB


@dataclass(frozen=True)
class WindowedCall:
    """A call of B·W windows (see `AttentionCall`), each row of which is over all of the grid.

    call: q (B·W, H, n, D), k (B·W, H, m, D). queries: (W, n), the cell that each query slot
    holds; keys: (W, m), that of each key slot; −1 is padding. rows_count, columns_count: the
    cells with a row, and those a row is over (a layer that pools its queries or keys has two
    grids). A row is 0 outside its own window; what falls on padding is missing from its sum.
    """

    call: AttentionCall
    queries: Tensor
    keys: Tensor
    rows_count: int
    columns_count: int
    _window: Tensor = field(init=False, repr=False)
    _slot: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        device = self.call.q.device
        places = torch.full((self.rows_count,), -1, device=device)
        held = self.queries.to(device).flatten()
        slots = torch.arange(len(held), device=device)
        places[held[held >= 0]] = slots[held >= 0]
        object.__setattr__(self, "_window", places // self.queries.shape[1])
        object.__setattr__(self, "_slot", places % self.queries.shape[1])

    @property
    def heads(self) -> int:
        return self.call.q.shape[1]

    @property
    def nbytes(self) -> int:
        """The memory that q and k take."""
        return self.call.nbytes

    def item(self, index: int) -> WindowedCall:
        """The same call for one photo of the batch (views, no copies)."""
        count = len(self.queries)
        some = slice(index * count, (index + 1) * count)
        mask = self.call.mask
        if mask is not None and mask.dim() == 4 and mask.shape[0] > count:
            mask = mask[some]
        v, output = (None if t is None else t[some] for t in (self.call.v, self.call.output))
        call = replace(
            self.call, q=self.call.q[some], k=self.call.k[some], mask=mask, v=v, output=output
        )
        return replace(self, call=call)

    def alone(self) -> WindowedCall:
        """The same call without v and the output, and so without any graph."""
        return replace(self, call=replace(self.call, v=None, output=None))

    def rows(
        self, rows: Tensor | slice, head: int | None = None, scratch: Tensor | None = None
    ) -> Tensor:
        """Attention rows over the grid: (B, heads, rows, cells), float32 or float64.

        scratch: taken for the sake of `AttentionCall.rows`; not used.
        """
        every = torch.arange(self.rows_count, device=self.call.q.device)
        wanted = every[rows]
        needed, place = self._window[wanted].unique(return_inverse=True)
        count = len(self.queries)
        photos = self.call.q.shape[0] // count
        starts = torch.arange(photos, device=wanted.device)[:, None] * count
        inside = self._of(needed, (starts + needed).flatten()).rows(slice(None), head)
        inside = inside.unflatten(0, (photos, -1))  # (B, windows, heads, n, m)
        chosen = inside[:, place, :, self._slot[wanted]]  # (rows, B, heads, m)
        cells = self.keys.to(wanted.device)[self._window[wanted]]  # (rows, m)
        over = chosen.new_zeros(*chosen.shape[:3], self.columns_count + 1)
        cells = cells.where(cells >= 0, self.columns_count)  # padding is cut off again
        over.scatter_(3, cells[:, None, None].expand_as(chosen), chosen)
        return over[..., :-1].permute(1, 2, 0, 3)

    def _of(self, needed: Tensor, places: Tensor) -> AttentionCall:
        """The call of some windows only: their numbers, and their places in the batch."""
        mask = self.call.mask
        if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
            per_photo = mask.shape[0] == len(self.queries) != self.call.q.shape[0]
            mask = mask[needed.repeat(len(places) // len(needed))] if per_photo else mask[places]
        return replace(
            self.call, q=self.call.q[places], k=self.call.k[places], mask=mask, v=None, output=None
        )

    def chunks(self, rows: Tensor, head: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The attention of some rows in pieces: (row indices, (B, heads, rows, cells))."""
        for some in rows.split(max(1, _CHUNK // (self.heads * self.columns_count))):
            yield some, self.rows(some, head)


Call = AttentionCall | WindowedCall
"""A call whose rows are over the grid."""
