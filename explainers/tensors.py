"""The tensors of a trace: those kept on its pass, and others from one more pass on demand."""

from __future__ import annotations

from collections.abc import Collection
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from explainers.capture import Capture, stored_as
from explainers.models.adapters import NAMES, Adapter
from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from explainers.scalars import shown
from explainers.sentence import Sentence

FINAL = "final"
"""The last block's output once the model's final norm has read it."""

Place = tuple[str, int]


class Tensors:
    """What a trace keeps besides q and k, by name and block (see `adapters.NAMES`).

    kept: tensors (B, N, width) of the trace's own pass over ``pixels`` (B, 3, h, w). The same
    pass is run once more for each kind of tensor that was not kept, and its tensors of all
    blocks are kept from then on.
    """

    def __init__(self, model: VisionModel, pixels: Tensor, kept: dict[Place, Tensor]) -> None:
        self._model, self._pixels, self._kept = model, pixels, kept
        self._values: tuple[Tensor, ...] | None = None
        self._lock = RLock()

    def item(self, index: int) -> Tensors:
        """The same for one photo of the batch (views, no copies)."""
        one = slice(index, index + 1)
        return Tensors(self._model, self._pixels[one], {k: t[one] for k, t in self._kept.items()})

    def kept(self, name: str, block: int) -> Tensor:
        """A kept tensor (B, N, width); ValueError where it was not kept."""
        depth = self._model.adapter.depth
        place = stored_as(name, block, depth)
        if place not in self._kept:
            raise ValueError(
                f"{name!r} of block {block} was not kept; trace with keep=({name!r},), "
                f"names: {', '.join(NAMES)}, blocks 0..{depth - 1}"
            )
        return self._kept[place]

    def features(self, name: str, block: int) -> Tensor:
        """A kind of tokens (B, N, width) of a block, kept or from one more pass.

        `FINAL` is the last block's only; ModelError where the model has no final norm that
        reads all tokens, or where its blocks' features cannot be read at all.
        """
        support = self._model.adapter.block_features_support(block)
        if not support:
            raise ModelError(support.reason)
        place = stored_as(name, block, self._model.adapter.depth)
        with self._lock:
            if place not in self._kept:
                names = {"output"} if name == FINAL else to_keep([name])
                self._kept |= self._again(_FinalNorm(self._model.adapter, names)).tensors
            if place not in self._kept:
                raise _no_final_norm()
            return self._kept[place]

    def values(self, block: int) -> Tensor:
        """v of a block (B, H, N, D), from one more pass."""
        with self._lock:
            if self._values is None:
                calls = self._again(Capture(self._model.adapter, values=True)).calls
                order, size = self._model.adapter.in_order, self._pixels.shape[-2:]
                self._values = tuple(order(i, c.v, size) for i, c in enumerate(calls))  # type: ignore[arg-type]
            return self._values[block]

    def _again(self, capture: Capture) -> Capture:
        with torch.inference_mode(False), torch.no_grad(), capture:
            self._model.logits(self._pixels)
        return capture


def to_keep(names: Collection[str]) -> set[str]:
    """What has to be kept for some tensors: a block's output is what enters the next one."""
    given = [names] if isinstance(names, str) or not isinstance(names, Collection) else names
    unknown = [shown(name) for name in given if name not in NAMES]
    if unknown:
        raise ValueError(
            Sentence(
                "keep_unknown",
                "A trace cannot keep {unknown}; choose from: {names}.",
                unknown=", ".join(unknown),
                names=", ".join(NAMES),
            )
        )
    return {*names, "input"} if "output" in names else {*names}


class _FinalNorm(Capture):
    """Sees the final norm too: the one that reads what the last block hands on, all of it."""

    def __init__(self, adapter: Adapter, keep: Collection[str]) -> None:
        super().__init__(adapter, keep)
        self._output = ("output", adapter.depth - 1)

    def _normed(self, read: Tensor, weight: Any, output: Tensor) -> None:
        super()._normed(read, weight, output)
        end = self.tensors.get(self._output)
        if end is not None and read.numel() == end.numel() and read.data_ptr() == end.data_ptr():
            self.tensors[FINAL, self._output[1]] = self.adapter.as_tokens(output.detach())


def _no_final_norm() -> ModelError:
    return ModelError(
        Sentence(
            "no_final_norm",
            "After the last block this model has no norm that reads its tokens one by one (it "
            "pools them first, or has none); choose the block's output.",
        )
    )
