"""Models whose linear layers were rounded: attention where it can be read, a sentence where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from explainers import ModelError, Photo, VisionModel, explain, wrap_model
from explainers.models.preprocessing import Preprocessing
from explainers.models.quantised import unrounded
from explainers.views.cost import shape_of
from tests import families
from tests.grid_families import grid_model, size_of
from tests.other_libraries import build
from tests.own_modules import own_vit
from tests.test_sizes import reference
from tests.test_swin_libraries import torchvision_swin, transformers_swin
from tests.tiny import CLASSES, WIDTH, seeded, tiny_encoder, tiny_photo_array, tiny_vit

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about torch.ao's age
PHOTO = Photo(tiny_photo_array(40, 60))
Model = tuple[Callable[[], Any], tuple[int, int]]

PLAIN: dict[str, Model] = {
    "timm": (tiny_vit, (16, 16)),
    "timm, post-norm": (lambda: families.build("post-norm"), (12, 20)),
    "timm, q k norm": (lambda: families.build("q k norm"), (12, 20)),
    "timm SigLIP": (lambda: families.build("SigLIP"), (12, 20)),
    "timm Qwen3": (lambda: families.build("Qwen3"), (12, 20)),
    "timm SAM": (lambda: families.build("SAM"), (12, 24)),
    "torchvision": (lambda: build("torchvision"), (16, 16)),
    "transformers": (lambda: build("vit"), (16, 16)),
    "reference": (lambda: reference("1d"), (16, 16)),
    "concise": (lambda: reference("1d", concise=True), (16, 16)),
    "encoder": (tiny_encoder, (16, 16)),
    "encoder, post-norm": (lambda: tiny_encoder(norm_first=False), (16, 16)),
    "own": (own_vit, (16, 16)),
    "own, written out": (lambda: own_vit(way="written", pool="patches"), (16, 16)),
    "own, linear patches": (lambda: own_vit(linear=True, pool="all"), (16, 16)),
}
"""One grid from block to block: attention and its rollout."""

SEVERAL_GRIDS: dict[str, Model] = {
    "timm Swin": (lambda: grid_model("swin"), size_of("swin")),
    "timm PVT": (lambda: grid_model("pvt_v2"), size_of("pvt_v2")),
    "transformers Swin": (transformers_swin, (32, 32)),
}
"""The attention of the last block, but nothing to follow through all of them."""

BROKEN: dict[str, Model] = {
    "torchvision Swin": (torchvision_swin, (32, 32)),
    "timm Swin V2": (lambda: grid_model("swin_v2"), size_of("swin_v2")),
    "timm BEiT": (lambda: families.build("BEiT"), (12, 20)),
}
"""Modules that do not run themselves once rounded: they take weights out of their layers."""

ALL = {**PLAIN, **SEVERAL_GRIDS}


def rounded(model: Model, which: Any = None) -> nn.Module:
    module = model[0]().float().eval()
    layers = {nn.Linear} if which is None else which(module)
    return torch.ao.quantization.quantize_dynamic(module, layers, dtype=torch.qint8)


def wrapped(module: nn.Module, size: tuple[int, int]) -> VisionModel:
    half = (0.5, 0.5, 0.5)
    return wrap_model(module, Preprocessing(size, half, half), size=size)


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_vit_is_looked_into(name: str) -> None:
    vit = wrapped(rounded(PLAIN[name]), PLAIN[name][1])
    trace = vit.trace(PHOTO)
    for method in ("attention", "rollout"):
        assert vit.supports(method), vit.supports(method).reason
        assert np.isfinite(explain(method, trace).values).all()


@pytest.mark.parametrize("name", SEVERAL_GRIDS)
def test_windows_are_looked_into(name: str) -> None:
    vit = wrapped(rounded(SEVERAL_GRIDS[name]), SEVERAL_GRIDS[name][1])
    assert vit.supports("attention"), vit.supports("attention").reason
    assert np.isfinite(explain("attention", vit.trace(PHOTO)).values).all()
    assert "merges patches" in str(vit.supports("rollout").reason)


@pytest.mark.parametrize("name", ALL)
def test_parts_are_hidden_and_gradients_refused(name: str) -> None:
    vit = wrapped(rounded(ALL[name]), ALL[name][1])
    assert vit.classes == CLASSES
    assert vit.supports("occlusion"), vit.supports("occlusion").reason
    assert np.isfinite(explain("occlusion", vit.trace(PHOTO), target=1).values).all()
    assert "whole numbers" in str(vit.supports("saliency").reason)


@pytest.mark.parametrize("name", ALL)
def test_it_is_read_as_the_model_before_rounding(name: str) -> None:
    make, size = ALL[name]
    plain, vit = wrapped(make().float().eval(), size), wrapped(rounded(ALL[name]), size)
    for what in ("pooling", "prefix", "patch", "heads", "depth", "classes"):
        assert getattr(vit.adapter, what) == getattr(plain.adapter, what), what
    if plain.adapter.one_grid_support():
        assert shape_of(vit) == shape_of(plain)
    near, far = plain.trace(PHOTO).logits, vit.trace(PHOTO).logits
    assert torch.isfinite(far).all()
    assert (near - far).abs().max() < 0.3 * near.abs().max()


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_run_any_more_is_said(name: str) -> None:
    with pytest.raises(ModelError, match="does not run with rounded weights"):
        wrapped(rounded(BROKEN[name]), BROKEN[name][1])


def test_the_remedy_in_that_sentence_works() -> None:
    def mlps(module: nn.Module) -> set[str]:
        named = module.named_modules()
        return {n for n, m in named if isinstance(m, nn.Linear) and ".mlp." in n}

    vit = wrapped(rounded(BROKEN["torchvision Swin"], mlps), (32, 32))
    for method in ("attention", "occlusion"):
        assert vit.supports(method), vit.supports(method).reason
        given = {"target": 1} if method == "occlusion" else {}
        assert np.isfinite(explain(method, vit.trace(PHOTO), **given).values).all()


def test_a_replaced_head_is_counted() -> None:
    for name, place in (("timm", "head"), ("torchvision", "heads")):
        module = ALL[name][0]().float().eval()
        with seeded(1):
            setattr(module, place, nn.Sequential(nn.Dropout(), nn.Linear(WIDTH, 7)).eval())
        small = torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)
        assert wrapped(small, (16, 16)).classes == 7


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_the_twin_has_the_rounded_weights_and_shares_the_others(dtype: torch.dtype) -> None:
    module = tiny_vit(dtype=torch.float32)
    assert unrounded(module) is module
    small = torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=dtype)
    twin: Any = unrounded(small)
    assert twin.norm.weight is small.norm.weight
    assert type(small.head) is not nn.Linear
    expected = small.head.weight()
    expected = expected.dequantize() if expected.is_quantized else expected
    assert torch.equal(twin.head.weight, expected)
    pixels = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert (twin(pixels) - small(pixels)).abs().max() < 0.2 * small(pixels).abs().max()
