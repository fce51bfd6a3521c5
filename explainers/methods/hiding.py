"""Hiding parts of the grid from the model, and asking what it then answers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from explainers.methods.baselines import BASELINES, baseline
from explainers.methods.scoring import Scorer
from explainers.models.errors import ModelError
from explainers.registry import Parameter
from explainers.sentence import Sentence
from explainers.trace import Trace

BATCH = 8  # pictures a model call: Cancel is obeyed between calls

REMOVE = "remove"
"""The way of hiding that is no fill: the patch's token is not given to the model at all."""

FILLS = (*BASELINES, REMOVE)

PER_PART = 4
"""Samples that a fit over parts of the grid needs for each part."""

SCORE = Parameter(
    "score",
    "probability",
    "choice",
    "Whether the class's probability or its logit is watched.",
    choices=("probability", "logit"),
)
SAMPLED_WINDOW = Parameter(
    "window",
    0,
    "integer",
    "Side of the squares that are hidden together, in patches; 0 takes the smallest that the "
    "samples suffice for.",
    low=0,
    high=64,
)


def squares(grid: tuple[int, int], window: int) -> Tensor:
    """(rows, cols): the number of the window × window square each patch lies in."""
    rows, columns = (torch.arange(side) // window for side in grid)
    return rows[:, None] * (int(columns[-1]) + 1) + columns


def sampled_squares(grid: tuple[int, int], window: int, samples: int) -> Tensor:
    """The squares of `squares`, few enough for a fit to ``samples`` scores.

    window 0: the smallest that are. Raises ModelError where a chosen window leaves too many.
    """
    if window == 0:
        window = 1
        while PER_PART * _count(grid, window) > samples and window < max(grid):
            window += 1
        return squares(grid, window)
    parts = _count(grid, window)
    if PER_PART * parts > samples:
        raise ModelError(
            Sentence(
                "samples_too_few",
                "{samples} samples are too few for the {parts} parts of this grid; take at least "
                "{needed}, or a larger window (0 finds one).",
                samples=samples,
                parts=parts,
                needed=PER_PART * parts,
            )
        )
    return squares(grid, window)


def spread_evenly(values: Tensor, parts: Tensor) -> Tensor:
    """Each part's value shared out evenly over its patches: (P,) → (rows, cols), the same sum."""
    return (values / parts.flatten().bincount())[parts]


def scores_of(trace: Trace, scorer: Scorer, shown: Tensor, parts: Tensor, fill: str) -> Tensor:
    """The score of each choice of parts left visible: (M, P) bool → (M,), float64 on the CPU.

    parts (rows, cols): the part of each patch. Hidden parts are filled, or with fill "remove"
    their tokens are taken out; sets of equal size share a model call.
    """
    if fill == REMOVE:
        return _scores_without_tokens(trace, scorer, shown[:, parts.flatten()])
    picture, nothing = trace.pixels[0].detach(), baseline(trace, fill)
    where = _part_of_pixel(trace, parts)
    found = []
    for some in shown.split(BATCH):
        visible = some[:, where][:, None].to(picture.device)  # (B, 1, h, w)
        found.append(scorer(torch.where(visible, picture, nothing)).cpu().double())
    return torch.cat(found)


def _scores_without_tokens(trace: Trace, scorer: Scorer, shown: Tensor) -> Tensor:
    """shown (M, patches) → scores (M,)."""
    found = torch.zeros(len(shown), dtype=torch.float64)
    for sets in _equal_sizes(shown.sum(1)):
        keep = shown[sets].nonzero()[:, 1].reshape(len(sets), -1)  # (B, n), in reading order
        found[sets] = scorer(trace.pixels.detach(), keep.to(trace.pixels.device)).cpu().double()
    return found


def _equal_sizes(sizes: Tensor) -> Iterator[Tensor]:
    """Indices of the sets, in batches within which all sizes are equal."""
    for size in sizes.unique():
        yield from (sizes == size).nonzero().flatten().split(BATCH)


def _part_of_pixel(trace: Trace, parts: Tensor) -> Tensor:
    """(h, w) of the model's input: the part each pixel belongs to.

    Pixels beyond the last whole patch, which the model cuts off, count to their neighbour.
    """
    rows, columns = (
        (torch.arange(size) // patch).clamp(max=cells - 1)
        for size, patch, cells in zip(
            trace.pixels.shape[-2:], trace.model.adapter.patch, parts.shape, strict=True
        )
    )
    return parts[rows[:, None], columns]


def _count(grid: tuple[int, int], window: int) -> int:
    return -(-grid[0] // window) * -(-grid[1] // window)
