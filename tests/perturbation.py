"""Methods that hide parts of the photo, run on tiny models, and what hiding comes to, slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from explainers import HeatMap, explain, load_photo, wrap_model
from explainers.methods.baselines import baseline
from explainers.trace import Trace
from tests import slow_vit
from tests.tiny import LABELS, VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
CLASSIFIERS = [name for name in VARIANTS if name != "headless"]
POOLS: dict[str, dict[str, Any]] = {
    **VARIANTS,
    "attention_pool": {"global_pool": "map", "class_token": False},
    "all_tokens": {"global_pool": "avg", "pool_include_prefix": True},
    "max": {"global_pool": "max"},
    "pre_norm": {"pre_norm": True},
    "positions_for_patches_only": {"no_embed_class": True},
    "any_size": {"dynamic_img_size": True},
}


def traced(variant: str = "plain", **more: Any) -> Trace:
    return wrap_model(tiny_vit(**{**POOLS[variant], **more}), labels=LABELS).trace(PHOTO)


def run(name: str, trace: Trace, target: int | None = 1, **more: Any) -> HeatMap:
    heat = explain(name, trace, target, **more)
    assert isinstance(heat, HeatMap)
    return heat


def keys(heat: HeatMap) -> list[str]:
    return [note.key for note in heat.notes]


def close(values: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(values), np.asarray(wanted), rtol=0, atol=tolerance)


def slow_score(
    trace: Trace, pixels: Tensor, score: str = "probability", against: int | None = None
) -> float:
    """The number explained for class 1, from the forward pass written out."""
    with torch.no_grad():
        logits = slow_vit.slow_forward(trace.model.module, pixels).logits
    answer = logits.softmax(-1) if score == "probability" else logits
    return float(answer[1] if against is None else answer[1] - answer[against])


def hide(trace: Trace, hidden: set[int], fill: str) -> Tensor:
    """The model's input with these patches (in reading order) filled, cell by cell."""
    pixels, nothing = trace.pixels[0].clone(), baseline(trace, fill)
    (height, width), columns = trace.model.adapter.patch, trace.grid[1]
    for patch in hidden:
        y, x = patch // columns * height, patch % columns * width
        box = (slice(None), slice(y, y + height), slice(x, x + width))
        pixels[box] = nothing[box]
    return pixels
