"""One model shared by many: bit-equal answers, nothing left behind, flat memory."""

from __future__ import annotations

import gc
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

from explainers import (
    Cancelled,
    HeatMap,
    Photo,
    VisionModel,
    explain,
    load_photo,
    methods,
    wrap_model,
)
from tests.module_state import state
from tests.tiny import tiny_encoder, tiny_photo_array, tiny_vit

QUICK: dict[str, dict[str, object]] = {
    "integrated_gradients": {"steps": 4},
    "smoothgrad": {"samples": 6},  # two batches
    "gradient_shap": {"samples": 6},
    "occlusion": {"window": 2},
    "score_cam": {"channels": 12},  # two batches
    "rise": {"masks": 12, "cells": 3},  # two batches
    "vit_cx": {"masks": 6},
    "kernel_shap": {"samples": 16},
    "lime": {"samples": 16},
}


class Breaks(nn.Module):
    """A block that fails at its n-th run."""

    def __init__(self, block: nn.Module, runs: int) -> None:
        super().__init__()
        self.block, self.left = block, [runs]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.left[0]:
            raise ZeroDivisionError("the model itself fails")
        self.left[0] -= 1
        return self.block(x)


@pytest.mark.parametrize("name", methods())
@pytest.mark.parametrize("how", ["normal", "bad target", "bad setting", "cancelled"])
def test_nothing_is_left_behind(name: str, how: str) -> None:
    module = tiny_vit()
    vit = wrap_model(module)
    trace = vit.trace(load_photo(tiny_photo_array()))
    before = state(module)

    def stop(done: int, total: int) -> None:
        if done:
            raise Cancelled

    if how == "normal":
        explain(name, trace, 1, **QUICK.get(name, {}))  # type: ignore[arg-type]
    elif how == "bad target" and methods()[name].class_specific:
        with pytest.raises(ValueError, match="99"):
            explain(name, trace, 99)
    elif how == "bad setting":
        with pytest.raises(ValueError, match="no setting"):
            explain(name, trace, nonsense=1)
    elif name in QUICK:
        with pytest.raises(Cancelled):
            explain(name, trace, 1, progress=stop)
    assert state(module) == before


@pytest.mark.parametrize("name", [name for name in methods() if methods()[name].class_specific])
@pytest.mark.parametrize("runs", [1, 2])
def test_an_error_inside_the_model_reaches_the_caller_as_it_is(name: str, runs: int) -> None:
    module = tiny_vit()
    module.blocks[1].mlp = Breaks(module.blocks[1].mlp, runs)
    vit = wrap_model(module)
    trace = vit.trace(load_photo(tiny_photo_array()))  # uses up one run
    before = state(module)
    method = methods()[name]
    if runs == 2 and method.cost(method.defaults, 16) <= 3:
        explain(name, trace, 1)  # these need one run more, and no second one
    else:
        with pytest.raises(ZeroDivisionError, match="the model itself fails"):
            explain(name, trace, 1, **QUICK.get(name, {}))  # type: ignore[arg-type]
    assert [s for s in state(module) if not isinstance(s, list)] == [
        s for s in before if not isinstance(s, list)
    ]


def requests(vit: VisionModel, photos: list[Photo], count: int) -> list[tuple[int, str, int, int]]:
    draw = random.Random(0)
    names = [name for name in methods() if vit.supports(name)]
    return [
        (draw.randrange(len(photos)), draw.choice(names), *draw.sample(range(vit.classes), 2))
        for _ in range(count)
    ]


def answer(vit: VisionModel, photos: list[Photo], request: tuple[int, str, int, int]) -> bytes:
    photo, name, target, against = request
    heat = explain(name, vit.trace(photos[photo]), target, against, **QUICK.get(name, {}))  # type: ignore[arg-type]
    assert isinstance(heat, HeatMap)
    return heat.values.tobytes()


@pytest.mark.parametrize("make", [tiny_vit, tiny_encoder])
def test_eight_threads_get_the_serial_answers_bit_for_bit(make) -> None:  # type: ignore[no-untyped-def]
    module = make(dtype=torch.float32)
    photos = [load_photo(tiny_photo_array(seed=seed)) for seed in range(4)]
    serial_model, shared = (wrap_model(module, size=(16, 16)) for _ in range(2))
    asked = requests(serial_model, photos, 8 * 25)
    serial = [answer(serial_model, photos, request) for request in asked]
    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(lambda request: answer(shared, photos, request), asked))
    assert parallel == serial


def test_threads_on_the_embedded_model_get_the_serial_answers(embedded: VisionModel) -> None:
    photos = [load_photo(tiny_photo_array(60, 80, seed=seed)) for seed in range(2)]
    asked = [
        (0, "rollout", 1, 2),
        (1, "saliency", 5, 6),
        (0, "input_x_gradient", 7, 1),
        (1, "attention", 0, 1),
        (0, "smoothgrad", 3, 9),
        (1, "integrated_gradients", 2, 3),
    ]
    serial = [answer(embedded, photos, request) for request in asked]
    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(lambda request: answer(embedded, photos, request), asked))
    assert parallel == serial


def test_the_embedded_models_attention_equals_the_explicit_map(embedded: VisionModel) -> None:
    """To 1e-5 on the real model in float32, logits unchanged by tracing."""
    photo = load_photo(tiny_photo_array(60, 80))
    trace = embedded.trace(photo, keep=("norm1",))
    with torch.no_grad():
        assert torch.equal(trace.logits, embedded.module(trace.pixels))
        for block in (0, 6, 11):
            attn = embedded.module.blocks[block].attn
            qkv = attn.qkv(trace.tensor("norm1", block)).unflatten(1, (3, 6, 64))
            q, k, _ = qkv.permute(1, 2, 0, 3)
            wanted = (q @ k.transpose(-2, -1) / 8).softmax(-1)
            torch.testing.assert_close(trace.attention(block), wanted, rtol=0, atol=1e-5)


def resident() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_two_hundred_traces_keep_no_memory(embedded: VisionModel) -> None:
    photos = [load_photo(tiny_photo_array(200, 300, seed=seed)) for seed in range(4)]

    def once(i: int) -> None:
        trace = embedded.trace(photos[i % 4])
        explain("rollout", trace)
        if i % 5 == 0:
            explain("saliency", trace, i % 7)

    for i in range(50):
        once(i)
    gc.collect()
    before = resident()
    for i in range(200):
        once(i)
    gc.collect()
    assert resident() - before <= 20


def test_traces_do_not_hold_each_other(embedded: VisionModel) -> None:
    import weakref

    trace = embedded.trace(load_photo(tiny_photo_array()))
    explain("saliency", trace, 3)
    gone = weakref.ref(trace)
    del trace
    gc.collect()
    assert gone() is None
