"""From attributions per channel and pixel to the map a method returns."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from explainers.heatmap import Finding
from explainers.registry import Parameter
from explainers.trace import Trace

RESOLUTION = Parameter(
    "resolution",
    "pixel",
    "choice",
    "One value a pixel of the model's input, or their sum over each patch.",
    choices=("pixel", "patch"),
)


def pixel_finding(trace: Trace, values: Tensor, resolution: str, **more: object) -> Finding:
    """values (H, W) of the model input as a finding, summed over patches where asked."""
    array: np.ndarray = values.detach().float().cpu().numpy()
    if values.dtype.itemsize == 8:
        array = values.detach().cpu().numpy()
    if resolution == "pixel":
        return Finding(array, kind="pixels", **more)  # type: ignore[arg-type]
    (rows, columns), (height, width) = trace.grid, trace.model.adapter.patch
    whole = array[: rows * height, : columns * width]
    patches = whole.reshape(rows, height, columns, width).sum((1, 3))
    return Finding(patches, kind="grid", **more)  # type: ignore[arg-type]
