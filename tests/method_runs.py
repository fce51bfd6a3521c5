"""Methods run on traces of tiny models, with few samples where they draw."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from explainers import HeatMap, explain, load_photo, wrap_model
from explainers.trace import Trace
from tests.tiny import LABELS, VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
SETTINGS: dict[str, dict[str, object]] = {
    "integrated_gradients": {"steps": 6},
    "smoothgrad": {"samples": 6},
    "gradient_shap": {"samples": 6},
    "score_cam": {"channels": 8, "at": "norm1"},
    "rise": {"masks": 24, "cells": 3},
    "kernel_shap": {"samples": 64},
    "lime": {"samples": 64},
}


def traced(variant: str = "plain", **more: object) -> Trace:
    return wrap_model(tiny_vit(**{**VARIANTS[variant], **more}), labels=LABELS).trace(PHOTO)


def run(name: str, trace: Trace, target: int | str | None = None, **more: object) -> HeatMap:
    heat = explain(name, trace, target, **{**SETTINGS.get(name, {}), **more})  # type: ignore[arg-type]
    assert isinstance(heat, HeatMap)
    return heat


def close(values: np.ndarray, wanted: Tensor | np.ndarray, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(values, np.asarray(wanted), rtol=0, atol=tolerance)
