"""The shared gradient pass of a large photo: one block at a time, in the memory of one block.

The graph of a whole pass holds some ten tensors (N, width) of every block. Here only the stream
that enters each block is held; from the last block down, each block is run again with a graph
and freed once its gradients are taken. The numbers are those of `gradients.gradient_pass`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.capture import Capture, stored_as
from explainers.gradients import SHARED, Gradients, Objective, gradients_or_zeros
from explainers.models.adapters import Stages
from explainers.models.vision_model import VisionModel

LARGE = 400
"""Tokens from which a pass goes block by block: one more run of the model, a fraction of the
memory (20 MB a block where a graph of all blocks takes 200 MB, for ViT-B at 384 px)."""


def block_by_block(
    model: VisionModel, stages: Stages, pixels: Tensor, objective: Objective
) -> Gradients:
    """As `gradients.gradient_pass`, for one photo's input (1, 3, h, w)."""
    with torch.inference_mode(False):
        with torch.no_grad():
            streams = [stages.embed(pixels)]
            for block in stages.blocks:
                streams.append(block(streams[-1]))
        with torch.enable_grad():
            return _downwards(model, stages, pixels, streams, objective)


def _downwards(
    model: VisionModel, stages: Stages, pixels: Tensor, streams: list[Tensor], objective: Objective
) -> Gradients:
    depth = len(stages.blocks)
    top = Capture(model.adapter, values=True)
    end = streams.pop().requires_grad_()
    with top:
        answer = stages.head(end)
    pooled = [call.output for call in top.calls if call.output is not None]
    gradient, *pool_gradients = gradients_or_zeros(objective(answer), [end, *pooled])
    tensors = {"output": (end.detach()[0], gradient[0])}
    values, outputs = [call.v[0] for call in top.calls], [g[0] for g in pool_gradients]  # type: ignore[index]
    del answer, end, pooled, pool_gradients, top
    for index in range(depth - 1, -1, -1):
        capture = Capture(model.adapter, keep=("norm1",), values=True)
        entering = streams.pop().requires_grad_()
        with capture:
            leaving = stages.blocks[index](entering)
        (call,) = capture.calls
        wanted = [entering, call.output]
        if index == depth - 1:
            wanted.append(capture.tensors[stored_as("norm1", index, depth)])
        gradient, output, *norm1 = gradients_or_zeros(leaving, wanted, gradient)  # type: ignore[arg-type]
        if norm1:
            tensors["norm1"] = wanted[2].detach()[0], norm1[0][0]  # type: ignore[union-attr]
        values.insert(0, call.v[0])  # type: ignore[index]
        outputs.insert(0, output[0])
    leaf = pixels.detach().clone().requires_grad_()
    (on_pixels,) = gradients_or_zeros(stages.embed(leaf), [leaf], gradient)
    ordered = {name: tensors[name] for name in SHARED}
    return Gradients(on_pixels[0], tuple(values), tuple(outputs), ordered)
