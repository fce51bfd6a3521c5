"""The shared gradient pass of a large photo: a step at a time, in the memory of one step.

The graph of a whole pass holds some ten tensors (N, width) of every block. Here only the stream
that enters each step (a block, or half of one) is held; from the last step down, each is run
again with a graph and freed once its gradients are taken. The numbers are those of
`gradients.gradient_pass`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from explainers.capture import Capture
from explainers.gradients import SHARED, Gradients, Objective, gradients_or_zeros
from explainers.models.parts import Stages
from explainers.models.vision_model import VisionModel

LARGE = 400
"""Tokens from which a pass goes step by step: one more run of the model, and less than half the
memory (160 MB instead of 350 for ViT-B at 384 px, all of the trace and the method included)."""


def step_by_step(
    model: VisionModel, stages: Stages, pixels: Tensor, objective: Objective
) -> Gradients:
    """As `gradients.gradient_pass`, for one photo's input (1, 3, h, w)."""
    with torch.inference_mode(False):
        with torch.no_grad():
            streams = [stages.embed(pixels)]
            for step in stages.steps:
                streams.append(step(streams[-1]))
        with torch.enable_grad():
            return _downwards(model, stages, pixels, streams, objective)


def _downwards(
    model: VisionModel, stages: Stages, pixels: Tensor, streams: list[Tensor], objective: Objective
) -> Gradients:
    values: list[Tensor] = []
    outputs: list[Tensor] = []
    tensors: dict[str, tuple[Tensor, Tensor]] = {}

    def below(step: Callable[[Tensor], Tensor], entering: Tensor, above: Tensor | None) -> Tensor:
        """One step run again: ∂y/∂(what enters it), from ∂y/∂(what leaves it)."""
        capture = Capture(model.adapter, keep=("norm1",), values=True)
        entering = entering.detach().requires_grad_()
        with capture:
            leaving = step(entering) if above is not None else objective(step(entering))
        calls = [call for call in capture.calls if call.output is not None]
        norm1 = capture.tensors.get(("norm1", model.adapter.depth - 1))
        wanted = [entering, *(call.output for call in calls if call.output is not None)]
        if norm1 is not None:
            wanted.append(norm1)
        found = gradients_or_zeros(leaving, wanted, above)
        values[:0] = [call.v[0] for call in calls]  # type: ignore[index]
        outputs[:0] = [gradient[0] for gradient in found[1 : 1 + len(calls)]]
        if norm1 is not None:
            tensors["norm1"] = norm1.detach()[0], found[-1][0]
        return found[0]

    end = streams.pop()
    gradient = below(stages.head, end, None)
    tensors["output"] = end[0], gradient[0]
    del end
    for step in reversed(stages.steps):
        gradient = below(step, streams.pop(), gradient)
    on_pixels = below(stages.embed, pixels, gradient)
    ordered = {name: tensors[name] for name in SHARED}
    return Gradients(on_pixels[0], tuple(values), tuple(outputs), ordered)
