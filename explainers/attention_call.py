"""One attention layer's call, and its rows computed again on demand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

_BLOCK_OF_ROWS = 2**21  # numbers in one chunk of attention rows: 8 MB


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
    def rows_at_once(self) -> int:
        """How many rows of all heads fit in one chunk."""
        return max(1, _BLOCK_OF_ROWS // (self.q.shape[1] * self.k.shape[2]))

    def item(self, index: int) -> AttentionCall:
        """The same call for one photo of the batch (views, no copies)."""
        one = slice(index, index + 1)
        mask = self.mask
        if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
            mask = mask[one]
        v, output = (None if t is None else t[one] for t in (self.v, self.output))
        return replace(self, q=self.q[one], k=self.k[one], mask=mask, v=v, output=output)

    def rows(self, rows: Tensor | slice, head: int | None = None) -> Tensor:
        """softmax(scale · q[rows] kᵀ + mask): (B, heads, rows, M), float32 or float64."""
        heads = slice(None) if head is None else slice(head, head + 1)
        q, k = exact(self.q[:, heads, rows]), exact(self.k[:, heads])
        scores = (q * self.scale) @ k.transpose(-2, -1)  # (B, H, rows, M)
        if self.mask is not None:
            mask = _as_four(self.mask)
            mask = mask if mask.shape[1] == 1 else mask[:, heads]
            mask = mask if mask.shape[2] == 1 else mask[:, :, rows]
            if mask.dtype == torch.bool:
                scores = scores.masked_fill(~mask, -torch.inf)
            else:
                scores += mask
        return torch.softmax(scores, -1, out=None if scores.requires_grad else scores)


def exact(tensor: Tensor) -> Tensor:
    """Half precision is widened: rows are sums of many small numbers."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _as_four(mask: Tensor) -> Tensor:
    return mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))
