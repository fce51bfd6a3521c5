"""Attention times its gradient, A ⊙ ∂y/∂A: what several methods fuse in their own ways."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from explainers.gradients import Gradients
from explainers.methods.scoring import Objective, Progress
from explainers.trace import Trace


def shared_gradients(trace: Trace, objective: Objective, progress: Progress) -> Gradients:
    """The target's gradients, from the one pass that all methods share."""
    progress(0, 1)
    gradients = trace.gradients(objective.target, objective.against)
    progress(1, 1)
    return gradients


def weighted_rows(
    trace: Trace, gradients: Gradients, block: int, rows: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields (row indices, A ⊙ ∂y/∂A of all heads (H, rows, N)), a chunk at a time.

    Each chunk is overwritten by the next one.
    """
    for some, (heads,) in trace.calls[block].chunks(rows):
        yield some, heads.mul_(gradients.attention(block, some))


def mean_then_clamp(
    trace: Trace, gradients: Gradients, block: int, rows: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """(row indices, (E_h[A ⊙ ∂y/∂A])⁺ (rows, N)): negative *means* are dropped."""
    for some, heads in weighted_rows(trace, gradients, block, rows):
        yield some, heads.mean(0).clamp_(min=0)


def clamp_then_mean(
    trace: Trace, gradients: Gradients, block: int, rows: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """(row indices, E_h[(A ⊙ ∂y/∂A)⁺] (rows, N)): negative *heads* are dropped."""
    for some, heads in weighted_rows(trace, gradients, block, rows):
        yield some, heads.clamp_(min=0).mean(0)
