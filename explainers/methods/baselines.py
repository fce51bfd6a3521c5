"""What a photo is compared with, or a hidden patch is filled with: "nothing was there"."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from explainers.registry import Parameter
from explainers.trace import Trace

BASELINES = ("black", "white", "grey", "mean", "blur")
"""black and white pixels; the training set's mean colour (zero once normalised); the photo's
own mean colour; the photo blurred beyond recognition."""


def baseline(trace: Trace, kind: str) -> Tensor:
    """The baseline as model input (3, h, w), normalised as the model's photos are."""
    pixels = trace.pixels[0].detach()
    if kind == "grey":
        return torch.zeros_like(pixels)
    if kind == "mean":
        return pixels.mean((1, 2), keepdim=True).expand_as(pixels).contiguous()
    if kind == "blur":
        # torchvision takes a second to import: only when it is asked to blur.
        from torchvision.transforms.v2.functional import gaussian_blur

        sigma = min(pixels.shape[1:]) / 16
        reach = min(int(3 * sigma), min(pixels.shape[1:]) - 1)  # reflection needs a smaller one
        return gaussian_blur(pixels[None], [2 * reach + 1] * 2, [sigma] * 2)[0]
    preprocessing = trace.model.preprocessing
    mean, std = (
        torch.tensor(values, dtype=pixels.dtype, device=pixels.device)[:, None, None]
        for values in (preprocessing.mean, preprocessing.std)
    )
    level = 1.0 if kind == "white" else 0.0
    return ((level - mean) / std).expand_as(pixels).contiguous()


def baseline_image(trace: Trace, kind: str) -> np.ndarray:
    """The baseline as a picture, uint8 (h, w, 3), for showing what it is."""
    return trace.model.preprocessing.undo(baseline(trace, kind))


def baseline_parameter(name: str, default: str, meaning: str) -> Parameter:
    """A setting that chooses among the baselines."""
    return Parameter(name, default, "choice", meaning, choices=BASELINES)
