"""The one gradient pass that every gradient method of a target shares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from explainers.attention_call import exact
from explainers.capture import Capture, stored_as
from explainers.models.vision_model import VisionModel

Objective = Callable[[Tensor], Tensor]
"""The model's answer (1, classes or features) → the one number to be explained."""

SHARED = ("norm1", "output")
"""The last block's tensors whose gradients every shared pass keeps, for the CAM methods."""


@dataclass(frozen=True)
class Gradients:
    """What one forward and backward pass for a target leaves behind, for one photo.

    pixels: ∂y/∂pixels (3, h, w); values: v of each block (H, N, D); outputs: ∂y/∂o of each
    block (H, N, D), o being A·v of every head. y is the target's logit, minus the contrast's.
    tensors: (tensor, ∂y/∂tensor), each (N, width), of the last block's "norm1" and "output".
    An attention pool's call, where there is one, stands after the blocks' in values and outputs.
    """

    pixels: Tensor
    values: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    tensors: dict[str, tuple[Tensor, Tensor]]

    def attention(self, block: int, rows: slice | Tensor = slice(None)) -> Tensor:
        """∂y/∂A of a block = (∂y/∂o) vᵀ: (H, rows, N)."""
        return exact(self.outputs[block][:, rows]) @ exact(self.values[block]).mT


@dataclass(frozen=True)
class Graph:
    """A forward pass over one photo whose graph is kept, for one backward pass.

    pixels: the leaf (1, 3, h, w); answer: (1, classes or features); kept: tensors by name.
    """

    pixels: Tensor
    answer: Tensor
    capture: Capture
    kept: dict[str, Tensor]

    def backward(self, objective: Objective) -> Gradients:
        """Gradients of a number made of the answer; frees the graph."""
        calls, adapter = self.capture.calls, self.capture.adapter
        size, tokens = self.pixels.shape[-2:], adapter.as_tokens
        outputs = [call.output for call in calls if call.output is not None]
        wanted = [self.pixels, *outputs, *self.kept.values()]
        filled = gradients_or_zeros(objective(self.answer), wanted)
        count = 1 + len(outputs)
        return Gradients(
            pixels=filled[0][0],
            values=tuple(
                adapter.in_order(i, call.v, size)[0]  # type: ignore[arg-type]
                for i, call in enumerate(calls)
            ),
            outputs=tuple(
                adapter.in_order(i, gradient, size)[0] for i, gradient in enumerate(filled[1:count])
            ),
            tensors={
                name: (tokens(tensor.detach())[0], tokens(gradient)[0])
                for (name, tensor), gradient in zip(self.kept.items(), filled[count:], strict=True)
            },
        )


def class_score(target: int, against: int | None) -> Objective:
    """The logit of a class, minus that of the class it is held against."""

    def score(answer: Tensor) -> Tensor:
        return answer[0, target] if against is None else answer[0, target] - answer[0, against]

    return score


def forward_with_graph(
    model: VisionModel,
    pixels: Tensor,
    keep: Collection[str] = SHARED,
    block: int = -1,
    also: Collection[str] = (),
    check: bool = False,
) -> Graph:
    """One forward pass over one photo's input (1, 3, h, w) that keeps its graph.

    keep: the tensors of one block whose gradients are wanted too. also: tensors of all blocks
    to keep for themselves. check: see `Capture`. Works for frozen models and in any mode; the
    model's flags stay as they are.
    """
    depth = model.adapter.depth
    block %= max(depth, 1)
    capture = Capture(model.adapter, keep=(*keep, *also, "input"), values=True, check=check)
    with torch.inference_mode(False), torch.enable_grad():
        leaf = pixels.detach().clone().requires_grad_()
        with capture:
            answer = model.logits(leaf)
    places = {name: stored_as(name, block, depth) for name in keep}
    kept = {name: capture.tensors[p] for name, p in places.items() if p in capture.tensors}
    return Graph(leaf, answer, capture, kept)


def gradient_pass(
    model: VisionModel,
    pixels: Tensor,
    objective: Objective,
    keep: Collection[str] = SHARED,
    block: int = -1,
) -> Gradients:
    """One forward pass with a graph (see `forward_with_graph`) and one backward pass.

    objective: the model's answer (1, classes) → the number to be explained. The model's flags
    and ``.grad`` stay as they are.
    """
    with torch.inference_mode(False), torch.enable_grad():
        return forward_with_graph(model, pixels, keep, block).backward(objective)


def gradients_or_zeros(
    output: Tensor, inputs: Sequence[Tensor], given: Tensor | None = None
) -> list[Tensor]:
    """∂output/∂input of each input, weighed by ``given``; zeros where it does not depend on it."""
    found = torch.autograd.grad(output, inputs, given, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(inputs, found, strict=True)]
