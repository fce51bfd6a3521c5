"""The CAM family run on traces of tiny models, and features from their definition."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from explainers import HeatMap, explain, load_photo, wrap_model
from explainers.trace import Trace
from tests.slow_vit import norm, slow_forward
from tests.tiny import DEPTH, VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
WEIGHED = ("grad_cam", "grad_cam_plus_plus", "hires_cam", "layer_cam", "xgrad_cam")
CAMS = (*WEIGHED, "eigen_cam", "score_cam")
CLASSIFIERS = [name for name in VARIANTS if name != "headless"]
LAST = DEPTH - 1


def traced(variant: str = "plain", **more: object) -> Trace:
    return wrap_model(tiny_vit(**{**VARIANTS[variant], **more})).trace(PHOTO)


def run(name: str, trace: Trace, target: int | None = None, **more: object) -> HeatMap:
    heat = explain(name, trace, target, **more)  # type: ignore[arg-type]
    assert isinstance(heat, HeatMap)
    return heat


def said(heat: HeatMap) -> list[str]:
    """The keys of the method's own notes."""
    return [note.key for note in heat.notes if note.key != "untrained_grid"]


def close(values: np.ndarray, wanted: object, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(values, np.asarray(wanted), rtol=0, atol=tolerance)


def auto(variant: str, block: int) -> str:
    """The latest point at which patches count, from the definition."""
    return "norm1" if block == LAST and "global_pool" not in VARIANTS[variant] else "output"


def slow_features(trace: Trace, block: int, at: str) -> Tensor:
    with torch.no_grad():
        slow = slow_forward(trace.model.module, trace.pixels[0])
        if at == "output":
            return slow.stream[block + 1][trace.prefix :]
        return norm(slow.stream[block], trace.model.module.blocks[block].norm1)[trace.prefix :]
