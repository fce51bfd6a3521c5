"""One attention layer's call, and its rows computed again on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

_CHUNK = 2**20  # numbers in one chunk of attention rows: 4 MB


@dataclass(frozen=True)
class AttentionCall:
    """One attention layer's call: everything its rows can be computed from again.

    q: (B, H, N, D), k: (B, H, M, D); mask: additive or boolean, broadcastable to (B, H, N, M).
    v (B, H, M, E) and output (B, H, N, E) are kept only where they were asked for.
    """

    q: Tensor
    k: Tensor
    scale: float
    mask: Tensor | None = None
    v: Tensor | None = None
    output: Tensor | None = None

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    @property
    def rows_count(self) -> int:
        """How many tokens look."""
        return self.q.shape[2]

    @property
    def columns_count(self) -> int:
        """How many tokens are looked at."""
        return self.k.shape[2]

    @property
    def nbytes(self) -> int:
        """The memory that q and k take."""
        return self.q.nbytes + self.k.nbytes

    def item(self, index: int) -> AttentionCall:
        """The same call for one photo of the batch (views, no copies)."""
        one = slice(index, index + 1)
        mask = self.mask
        if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
            mask = mask[one]
        v, output = (None if t is None else t[one] for t in (self.v, self.output))
        return replace(self, q=self.q[one], k=self.k[one], mask=mask, v=v, output=output)

    def alone(self) -> AttentionCall:
        """The same call without v and the output, and so without any graph."""
        return replace(self, v=None, output=None)

    def rows(
        self, rows: Tensor | slice, head: int | None = None, scratch: Tensor | None = None
    ) -> Tensor:
        """softmax(scale · q[rows] kᵀ + mask): (B, heads, rows, M), float32 or float64.

        scratch: an earlier answer whose memory is used again where the shape is the same;
        taking fresh memory for each chunk of a large photo costs more than the arithmetic.
        """
        heads = slice(None) if head is None else slice(head, head + 1)
        q, k = exact(self.q[:, heads, rows]) * self.scale, exact(self.k[:, heads])
        shape = (*q.shape[:3], k.shape[2])  # (B, H, rows, M)
        if scratch is None or scratch.shape != shape:
            scratch = q.new_empty(shape)
        torch.bmm(q.flatten(0, 1), k.flatten(0, 1).mT, out=scratch.flatten(0, 1))
        if self.mask is not None:
            mask = _as_four(self.mask)
            mask = mask if mask.shape[1] == 1 else mask[:, heads]
            mask = mask if mask.shape[2] == 1 else mask[:, :, rows]
            if mask.dtype == torch.bool:
                scratch.masked_fill_(~mask, -torch.inf)
            else:
                scratch += mask
        return torch.softmax(scratch, -1, out=scratch)

    def chunks(self, rows: Tensor, head: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The attention of some rows in cache-sized pieces: (row indices, (B, heads, rows, M)).

        Each piece is overwritten by the next one.
        """
        piece = None
        for some in rows.split(max(1, _CHUNK // (self.q.shape[1] * self.k.shape[2]))):
            piece = self.rows(some, head, piece)
            yield some, piece


def exact(tensor: Tensor) -> Tensor:
    """Half precision is widened: rows are sums of many small numbers."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _as_four(mask: Tensor) -> Tensor:
    return mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))
