"""Norms, however they are computed: which tensor was read, and by which block's weight.

A model may call `F.layer_norm` or `F.rms_norm`, or write the norm out as x · r · weight, or
widen x and the weight to float32 before. All of these end in one call that is given the
weight, and a few steps back lead from there to the tensor of the residual stream.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor


class NormReader:
    """Told of the products and casts of a pass, it leads back to what a norm was given."""

    def __init__(self) -> None:
        self._scaled: tuple[Any, Any] = None, None  # (x · r, x)
        self._cast: tuple[Any, Any] = None, None  # (x.float(), x)
        self._weights: dict[int, tuple[Tensor, Tensor]] = {}  # id(w.float()) → (w.float(), w)

    def cast(self, given: Tensor, output: Tensor, watched: bool) -> None:
        """A tensor was cast; watched: whether it is a parameter that names a place."""
        if output is given:
            return
        if watched:
            self._weights[id(output)] = output, given  # held, so that no other takes its id
        else:
            self._cast = output, given

    def weight(self, given: Any) -> Any:
        """The parameter behind a weight that may have been widened."""
        kept = self._weights.get(id(given))
        return kept[1] if kept else given

    def source(self, given: Any) -> Any:
        """The tensor behind one that may have been widened."""
        return self._cast[1] if given is self._cast[0] and given is not None else given

    def product(self, left: Any, right: Any, output: Tensor) -> tuple[Any, Any] | None:
        """A product has run: (x, weight) where it was the last step of a written-out norm."""
        for scaled, weight in ((left, right), (right, left)):
            if scaled is self._scaled[0] and scaled is not None:
                return self.source(self._scaled[1]), self.weight(weight)
        if isinstance(right, Tensor) and right.dim() == left.dim() and right.shape[-1] == 1:
            self._scaled = output, left
        return None
