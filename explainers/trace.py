"""Trace: one forward pass of a model, and everything explanations ask of it afterwards."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from html import escape

import numpy as np
import torch
from torch import Tensor

from explainers.attention_call import AttentionCall
from explainers.gradients import Gradients, Graph, Objective, class_score, gradient_pass
from explainers.image import Geometry, Photo
from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from explainers.scalars import index_in, shown, whole_number
from explainers.sentence import Sentence
from explainers.step_gradients import LARGE, step_by_step
from explainers.tensors import Tensors


class Trace:
    """One forward pass over one photo or several.

    pixels: model input (B, 3, h, w); logits, probabilities: (B, classes) or None without a
    head; calls: the blocks' attention calls; pool: an attention pool's call, or None.
    A trace is read-only; ``trace[i]`` is the trace of one photo.
    """

    def __init__(
        self,
        model: VisionModel,
        photos: Sequence[Photo],
        geometries: Sequence[Geometry],
        pixels: Tensor,
        logits: Tensor | None,
        calls: Sequence[AttentionCall],
        tensors: Tensors,
        graph: Graph | None = None,
    ) -> None:
        self.model = model
        self.photos, self.geometries = tuple(photos), tuple(geometries)
        self.pixels = pixels
        self.logits = logits
        depth = model.adapter.depth
        self.calls = tuple(calls[:depth])
        self.pool = calls[depth] if len(calls) > depth else None
        self._tensors = tensors
        self._graph = graph  # of the pass that made this trace, until the first target takes it
        self._items: dict[int, Trace] = {}
        self._gradients: tuple[tuple[int, int | None], Gradients] | None = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, index: int) -> Trace:
        place = whole_number(index)
        if place is None or not -len(self) <= place < len(self):
            raise IndexError(
                Sentence(
                    "trace_index",
                    "The photo must be a whole number in 0..{last}, got {index}.",
                    last=len(self) - 1,
                    index=shown(index),
                )
            )
        index = place % len(self)
        if len(self) == 1:
            return self
        with self._lock:
            if index not in self._items:
                one = slice(index, index + 1)
                calls = [*self.calls, *([] if self.pool is None else [self.pool])]
                self._items[index] = Trace(
                    self.model,
                    self.photos[one],
                    self.geometries[one],
                    self.pixels[one],
                    None if self.logits is None else self.logits[one],
                    [call.item(index) for call in calls],
                    self._tensors.item(index),
                )
            return self._items[index]

    # -- what the model answered -----------------------------------------------------------

    @property
    def probabilities(self) -> Tensor | None:
        """softmax of the logits, (B, classes)."""
        if self.logits is None:
            return None
        exact = torch.float64 if self.logits.dtype == torch.float64 else torch.float32
        return self.logits.softmax(-1, dtype=exact)

    def top(self, count: int = 5) -> list[tuple[int, str, float]]:
        """The most likely classes of one photo: (index, label, probability), best first."""
        probabilities = self._one().probabilities
        if probabilities is None:
            return []
        wanted = whole_number(count)
        if wanted is None or wanted < 0:
            raise ValueError(
                Sentence(
                    "top_count",
                    "How many classes to name must be a whole number from 0 up; got {count}.",
                    count=shown(count),
                )
            )
        best = probabilities[0].topk(min(wanted, probabilities.shape[1]))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [(index, self.model.label(index), value) for index, value in pairs]

    def _repr_html_(self) -> str:
        """The model's first answers for each photo, as Jupyter shows them."""
        return "".join(_answers(self[i], i) for i in range(len(self)))

    # -- tokens ----------------------------------------------------------------------------

    @property
    def photo(self) -> Photo:
        return self._one().photos[0]

    @property
    def geometry(self) -> Geometry:
        return self._one().geometries[0]

    @property
    def depth(self) -> int:
        return self.model.adapter.depth

    @property
    def heads(self) -> int:
        return self.model.adapter.heads

    @property
    def tokens(self) -> int:
        return self.prefix + self.grid[0] * self.grid[1]

    @property
    def prefix(self) -> int:
        return self.model.adapter.prefix

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches, from the model and the actual input."""
        return self.model.adapter.grid(self.pixels.shape[-2:])

    def block_grids(self, block: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The grids of a block's rows of attention, and of the cells that each row is over.

        Both are `grid`, except in models of several grids.
        """
        return self.model.adapter.block_grids(block, self.pixels.shape[-2:])

    # -- tensors -----------------------------------------------------------------------------

    def tensor(self, name: str, block: int) -> Tensor:
        """A tensor kept by name (see `adapters.NAMES`) for one photo, e.g. (N, width)."""
        return self._one()._tensors.kept(name, block)[0]

    def features(self, name: str, block: int) -> Tensor:
        """The same where nobody asked to keep it: one more run of the model, then kept.

        name may also be `tensors.FINAL`. ModelError where the model's features are not read.
        Not run again where a gradient pass has kept them.
        """
        shared = self._one()._gradients
        block = index_in("block", block, self.depth)
        if shared is not None and block == self.depth - 1 and name in shared[1].tensors:
            return shared[1].tensors[name][0]
        return self._tensors.features(name, block)[0]

    def values(self, block: int) -> Tensor:
        """v of a block (H, N, D); a trace keeps only q and k, so this runs the model once more.

        Not where gradients were asked for before: their pass has kept v.
        """
        shared = self._one()._gradients
        block = index_in("block", block, self.depth)
        return self._tensors.values(block)[0] if shared is None else shared[1].values[block]

    # -- attention ---------------------------------------------------------------------------

    def attention(
        self, block: int, head: int | None = None, rows: Sequence[int] | None = None
    ) -> Tensor:
        """Attention rows of one photo, computed on demand; each row sums to 1.

        Returns (rows, N) of one head, or (H, rows, N) of all; all rows where none are named.
        """
        self._one()
        block = index_in("block", block, self.depth)
        call = self.calls[block]
        if head is not None:
            head = index_in("head", head, call.heads)
        chosen: Tensor | slice = slice(None)
        if rows is not None:
            places = [index_in("row", row, call.rows_count) for row in np.atleast_1d(rows)]
            chosen = torch.as_tensor(places, dtype=torch.long, device=self.pixels.device)
        attention = call.rows(chosen, head)[0]
        return attention if head is None else attention[0]

    def decision_row(self, row: int | None = None) -> Tensor:
        """Where the model's look starts: weights (N,) over the top block's rows.

        CLS, CLS and DIST, or the mean of the patches, as the model pools; an attention pool
        starts at the mean over heads of its latent's row. row: this token's row instead.
        Raises ModelError where no row is the model's look.
        """
        support = self.model.adapter.decision_support()
        if row is None and not support:
            raise ModelError(support.reason)
        return self.look(self.depth - 1, row)

    def look(self, block: int, row: int | None = None) -> Tensor:
        """The same for one block, of a model whose blocks need not have one grid.

        ModelError without a row where the answer is not drawn from the block's own tokens.
        """
        dtype = torch.float64 if self.pixels.dtype == torch.float64 else torch.float32
        if row is not None:
            tokens = self.calls[block].rows_count if self.calls else self.tokens
            weights = torch.zeros(tokens, dtype=dtype, device=self.pixels.device)
            weights[index_in("row", row, tokens)] = 1
            return weights
        support = self.model.adapter.look_support()
        if not support:
            raise ModelError(support.reason)
        if self.block_grids(block)[0] != self.grid:
            raise _no_look(block, self.block_grids(block)[0])
        if self.pool is not None:
            return self.pooled_row(self.pool.rows(slice(0, 1))[0, :, 0].mean(0))
        return self.model.adapter.decision_weights(self.tokens).to(self.pixels.device, dtype)

    def pooled_row(self, row: Tensor) -> Tensor:
        """An attention pool's row over all tokens (N,): zero on a prefix that it leaves out."""
        return torch.nn.functional.pad(row, (self.tokens - len(row), 0))

    # -- gradients ---------------------------------------------------------------------------

    def gradients(self, target: int, against: int | None = None) -> Gradients:
        """Gradients of the target's logit (minus the contrast's), shared by all methods.

        The last target's are kept. Works for frozen models and inside `torch.no_grad`; the
        model's flags and ``.grad`` stay as they are.
        """
        self._one()
        key = (target, against)
        with self._lock:
            if self._gradients is None or self._gradients[0] != key:
                self._gradients = None  # two targets' tensors never stand side by side
                self._gradients = key, self._gradient_pass(class_score(target, against))
            return self._gradients[1]

    def _gradient_pass(self, objective: Objective) -> Gradients:
        graph, self._graph = self._graph, None
        if graph is not None:
            with torch.inference_mode(False), torch.enable_grad():
                return graph.backward(objective)
        stages = self.model.adapter.stages()
        if stages is not None and self.tokens >= LARGE:
            return step_by_step(self.model, stages, self.pixels, objective)
        return gradient_pass(self.model, self.pixels, objective)

    def _one(self) -> Trace:
        if len(self) != 1:
            raise ValueError(f"this trace holds {len(self)} photos; choose one: trace[i]")
        return self


def _no_look(block: int, grid: tuple[int, int]) -> ModelError:
    return ModelError(
        Sentence(
            "no_look_in_block",
            "Block {block} has a grid of its own ({rows}×{columns}), from whose cells the answer "
            "is not drawn; choose the row of one of its cells, or the last block.",
            block=block,
            rows=grid[0],
            columns=grid[1],
        )
    )


def _answers(trace: Trace, number: int) -> str:
    rows, columns = trace.grid
    lines = "".join(
        f"<tr><td>{probability:.1%}</td><td style='text-align:left'>{escape(label)}</td></tr>"
        for _, label, probability in trace.top(5)
    )
    return (
        f"<p>Photo {number} through {escape(trace.model.name)}: {rows}×{columns} patches, "
        f"{trace.prefix} prefix tokens, {trace.depth} blocks of {trace.heads} heads</p>"
        f"<table>{lines}</table>"
    )


def demand_trace(given: object) -> None:
    """Raise TypeError where a trace was expected and something else came."""
    if not isinstance(given, Trace):
        raise TypeError(
            Sentence(
                "trace_expected",
                "A trace was expected, and {kind} came; make one with model.trace(photo).",
                kind=type(given).__name__,
            )
        )
