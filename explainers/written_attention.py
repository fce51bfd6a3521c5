"""Attention that a model writes out itself, softmax(q kᵀ + mask) v, followed step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass
class _Steps:
    """How far one attention has come: weights is None until its softmax has run."""

    q: Tensor
    k: Tensor
    scores: Tensor
    scale: float = 1.0
    mask: Tensor | None = None
    weights: Tensor | None = None


@dataclass(frozen=True)
class Written:
    """An attention whose last step has run: output = softmax(scale · q kᵀ + mask) v."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    scale: float


class WrittenAttention:
    """Told of the products, sums and softmaxes of a pass, it says when they were attention.

    The steps belong together because each one's result is the very tensor that the next one
    is given. q may be scaled before its product, or the product afterwards, by a number.
    """

    def __init__(self) -> None:
        self._steps: _Steps | None = None

    def product(self, left: Any, right: Any, output: Tensor) -> Written | None:
        """A matrix product has run; the attention it completes, if it does."""
        if not (_has_heads(left) and _has_heads(right)):
            return None
        steps = self._steps
        if steps and steps.weights is not None and left.shape == steps.weights.shape:
            self._steps = None
            return Written(steps.q, steps.k, right, steps.mask, steps.scale)
        self._steps = _Steps(left, right.transpose(-2, -1), output)
        return None

    def softmax(self, scores: Any, output: Tensor) -> None:
        """A softmax has run."""
        if self._steps and scores is self._steps.scores:
            self._steps.weights = output

    def sum(self, left: Any, right: Any, output: Tensor) -> None:
        """A sum has run: of the scores and one more mask, where one of its terms is theirs."""
        steps = self._steps
        if not steps:
            return
        if right is steps.scores:
            left, right = right, left
        if left is steps.scores and isinstance(right, Tensor):
            steps.mask = right if steps.mask is None else steps.mask + right
            steps.scores = output

    def before(self, tensor: Any) -> Tensor | None:
        """The scores as they are, where they are what will be written into."""
        steps = self._steps
        return steps.scores.detach().clone() if steps and tensor is steps.scores else None

    def changed(self, by: Tensor) -> None:
        """The scores were written into where they stand; what came on top is one more mask."""
        if self._steps:
            self._steps.mask = by if self._steps.mask is None else self._steps.mask + by

    def scaling(self, left: Any, right: Any, output: Tensor) -> None:
        """A product has run: a scale, where it was of the scores with a number, or one a head."""
        steps = self._steps
        if not steps or left is not steps.scores:
            return
        if isinstance(right, Tensor):
            if right.shape[-2:] != (1, 1):  # another one for each query or key
                return
            steps.q = steps.q * right
        elif isinstance(right, (int, float)):
            steps.scale *= right
        else:
            return
        steps.mask = None if steps.mask is None else steps.mask * right
        steps.scores = output

    def view(self, before: Any, output: Tensor) -> None:
        """A view was taken: of scores (B·W, H, n, n) as (B, W, H, n, n), or the way back.

        What is added in between is one mask for each of W windows.
        """
        steps = self._steps
        if not steps or before is not steps.scores or output.shape[-3:] != before.shape[-3:]:
            return
        mask = steps.mask
        if mask is not None and output.dim() == 5:
            alike = mask.dim() < 4 or mask.shape[0] == 1  # the same in every window
            mask = mask if alike else mask.expand_as(before).reshape(output.shape)
        elif mask is not None and mask.dim() == 5:
            mask = mask.expand(before.shape).flatten(0, 1)
        steps.mask, steps.scores = mask, output


def _has_heads(tensor: Any) -> bool:
    """Whether a tensor can be (B, H, N, D), or (B·H, N, D)."""
    return isinstance(tensor, Tensor) and tensor.dim() in (3, 4)
