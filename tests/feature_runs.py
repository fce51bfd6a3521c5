"""Features of tiny models, from the trace and written out, and the methods that show them."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from explainers import HeatMap, explain, load_photo, wrap_model
from explainers.trace import Trace
from tests.tiny import VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())


def traced(variant: str = "plain", **more: object) -> Trace:
    return wrap_model(tiny_vit(**{**VARIANTS[variant], **more})).trace(PHOTO)


def run(name: str, trace: Trace, **more: object) -> HeatMap:
    heat = explain(name, trace, **more)  # type: ignore[arg-type]
    assert isinstance(heat, HeatMap)
    return heat


def close(values: np.ndarray | Tensor, wanted: Tensor | np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(values), np.asarray(wanted), rtol=0, atol=1e-10)
