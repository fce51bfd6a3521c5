"""The one gradient pass that every gradient method of a target shares."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from explainers.capture import Capture, stored_as
from explainers.models.vision_model import VisionModel

Objective = Callable[[Tensor], Tensor]
"""The model's answer (1, classes or features) → the one number to be explained."""


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
        return self.outputs[block][:, rows] @ self.values[block].transpose(-2, -1)


def class_score(target: int, against: int | None) -> Objective:
    """The logit of a class, minus that of the class it is held against."""

    def score(answer: Tensor) -> Tensor:
        return answer[0, target] if against is None else answer[0, target] - answer[0, against]

    return score


def gradient_pass(
    model: VisionModel,
    pixels: Tensor,
    objective: Objective,
    keep: Collection[str] = ("norm1", "output"),
    block: int = -1,
) -> Gradients:
    """One forward pass with a graph and one backward pass over one photo's input (1, 3, h, w).

    objective: the model's answer (1, classes) → the number to be explained. keep: the tensors
    of one block whose gradients are wanted too. Works for frozen models and in any mode; the
    model's flags and ``.grad`` stay as they are.
    """
    block %= max(model.adapter.depth, 1)
    capture = Capture(model.adapter, keep=(*keep, "input"), values=True)
    with torch.inference_mode(False), torch.enable_grad():
        pixels = pixels.detach().clone().requires_grad_()
        with capture:
            answer = model.logits(pixels)
        places = {name: stored_as(name, block, model.adapter.depth) for name in keep}
        kept = {name: capture.tensors[p] for name, p in places.items() if p in capture.tensors}
        outputs = [call.output for call in capture.calls if call.output is not None]
        wanted = [pixels, *outputs, *kept.values()]
        found = torch.autograd.grad(objective(answer), wanted, allow_unused=True)
    filled = [torch.zeros_like(t) if g is None else g for t, g in zip(wanted, found, strict=True)]
    count = 1 + len(outputs)
    return Gradients(
        pixels=filled[0][0],
        values=tuple(call.v[0] for call in capture.calls),  # type: ignore[index]
        outputs=tuple(gradient[0] for gradient in filled[1:count]),
        tensors={
            name: (tensor.detach()[0], gradient[0])
            for (name, tensor), gradient in zip(kept.items(), filled[count:], strict=True)
        },
    )
