"""The one gradient pass that every gradient method of a target shares."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from explainers.capture import Capture
from explainers.models.vision_model import VisionModel


@dataclass(frozen=True)
class Gradients:
    """What one forward and backward pass for a target leaves behind, for one photo.

    pixels: ∂y/∂pixels (3, h, w); values: v of each block (H, N, D); outputs: ∂y/∂o of each
    block (H, N, D), o being A·v of every head. y is the target's logit, minus the contrast's.
    tensors: (tensor, ∂y/∂tensor), each (N, width), of the last block's "norm1" and "output".
    """

    pixels: Tensor
    values: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    tensors: dict[tuple[str, int], tuple[Tensor, Tensor]]

    def attention(self, block: int, rows: slice | Tensor = slice(None)) -> Tensor:
        """∂y/∂A of a block = (∂y/∂o) vᵀ: (H, rows, N)."""
        return self.outputs[block][:, rows] @ self.values[block].transpose(-2, -1)


def gradient_pass(
    model: VisionModel, pixels: Tensor, target: int, against: int | None
) -> Gradients:
    """One forward pass with a graph and one backward pass over one photo's input (1, 3, h, w).

    Works for frozen models and in any mode; the model's flags and ``.grad`` stay as they are.
    """
    depth = model.adapter.depth
    capture = Capture(model.adapter, keep=("norm1", "output"), values=True)
    with torch.inference_mode(False), torch.enable_grad():
        pixels = pixels.detach().clone().requires_grad_()
        with capture:
            logits = model.logits(pixels)
        objective = logits[0, target]
        if against is not None:
            objective = objective - logits[0, against]
        last = {k: t for k, t in capture.tensors.items() if k[1] == depth - 1}
        outputs = [call.output for call in capture.calls if call.output is not None]
        wanted = [pixels, *outputs, *last.values()]
        found = torch.autograd.grad(objective, wanted, allow_unused=True)
    filled = [torch.zeros_like(t) if g is None else g for t, g in zip(wanted, found, strict=True)]
    count = 1 + len(outputs)
    return Gradients(
        pixels=filled[0][0],
        values=tuple(call.v[0] for call in capture.calls),  # type: ignore[index]
        outputs=tuple(gradient[0] for gradient in filled[1:count]),
        tensors={
            key: (tensor.detach()[0], gradient[0])
            for (key, tensor), gradient in zip(last.items(), filled[count:], strict=True)
        },
    )
