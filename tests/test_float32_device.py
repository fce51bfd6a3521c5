"""Nothing makes float64 on the model's device: Apple's has none, and all must run there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from app.anatomy_shown import ready, view
from app.attention_data import look
from explainers import HeatMap, explain, load_photo, methods, wrap_model
from explainers.trace import Trace
from explainers.views.anatomy import Anatomy
from explainers.views.filters import principal, raw
from explainers.views.heads import head_figures
from explainers.views.lens import lens, patch_answers
from explainers.views.positions import position_similarity
from explainers.views.steps import STEPS
from tests.float32_device import NoFloat64, OnDevice, move
from tests.tiny import LABELS, VARIANTS, tiny_photo_array, tiny_vit

QUICK = {
    "integrated_gradients": {"steps": 4},
    "smoothgrad": {"samples": 4},
    "gradient_shap": {"samples": 4},
    "score_cam": {"channels": 4},
    "rise": {"masks": 8, "cells": 3},
    "kernel_shap": {"samples": 32},
    "lime": {"samples": 32},
}
CLASSIFIERS = [name for name in VARIANTS if name != "headless"]


@pytest.fixture(autouse=True)
def no_float64() -> Iterator[None]:
    with NoFloat64():
        yield


def traced(variant: str = "plain") -> Trace:
    module = move(tiny_vit(dtype=torch.float32, **VARIANTS[variant]))
    return wrap_model(module, labels=LABELS).trace(load_photo(tiny_photo_array()))


def test_the_pretended_device_notices_float64() -> None:
    trace = traced()
    found = trace.features("output", 0)
    assert isinstance(trace.pixels, OnDevice)
    assert isinstance(found, OnDevice)
    assert isinstance(trace.attention(0) @ found, OnDevice)
    assert not isinstance(found.cpu().double(), OnDevice)
    elsewhere = torch.zeros(2, dtype=torch.float64)
    assert isinstance(elsewhere.float().to(trace.pixels.device), OnDevice)
    for wrong in (
        lambda: found.double(),
        lambda: found.mean(dtype=torch.float64),
        lambda: trace.model.module.patch_embed.proj.weight.double(),
        lambda: elsewhere.to(trace.pixels.device),
        lambda: torch.zeros(2, dtype=torch.float64, device=trace.pixels.device),
    ):
        with pytest.raises(AssertionError, match="float64 on the device"):
            wrong()


@pytest.mark.parametrize("variant", ["plain", "average_registers"])
@pytest.mark.parametrize("name", methods())
def test_methods(name: str, variant: str) -> None:
    trace = traced(variant)
    if not trace.model.supports(name):
        pytest.skip("not for this model")
    assert isinstance(explain(name, trace, **QUICK.get(name, {})), HeatMap)


@pytest.mark.parametrize("variant", CLASSIFIERS)
def test_views(variant: str) -> None:
    trace = traced(variant)
    head_figures(trace)
    lens(trace)
    if trace.model.adapter.readout_support():
        patch_answers(trace, 1)
    raw(trace.model)
    principal(trace.model, 4)
    if trace.model.adapter.positions_support():
        position_similarity(trace.model)


@pytest.mark.parametrize("variant", CLASSIFIERS)
def test_the_attention_tab(variant: str) -> None:
    look(traced(variant))


@pytest.mark.parametrize("variant", CLASSIFIERS)
def test_anatomy(variant: str) -> None:
    anatomy = Anatomy(traced(variant))
    now = view("en", anatomy, 2, 2, 1, 1, "patch")
    chosen = now.row + 1, now.column + 1, now.block, now.head, now.asks
    for step in STEPS:
        ready("en", anatomy, step, chosen)
    if anatomy.support("projection"):
        assert anatomy.repainted.dtype == torch.float32
