"""Captum's gradient methods on the trace's shared gradient pass."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from explainers.methods.scoring import Objective, Progress, Scorer
from explainers.trace import Trace


def through_captum(
    attribution: Any, trace: Trace, objective: Objective, progress: Progress
) -> Tensor:
    """What a Captum gradient attribution says of the photo: (3, H, W) of the model input.

    Captum asks its ``gradient_func`` for the gradient; the trace has it, or computes it once
    for all methods of this target, so a second method does not run the model again.
    """
    scorer = Scorer(trace.model, objective, progress, total=1)
    method = attribution(scorer)

    def shared(*_: Any, **__: Any) -> tuple[Tensor, ...]:
        progress(0, 1)
        found = trace.gradients(objective.target, objective.against)
        progress(1, 1)
        return (found.pixels[None],)

    method.gradient_func = shared
    return method.attribute(leaf(trace))[0].detach()


def leaf(trace: Trace) -> Tensor:
    """A copy of the photo's pixels (1, 3, h, w) that gradients may be asked of."""
    return trace.pixels.detach().clone().requires_grad_()
