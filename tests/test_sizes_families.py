"""Sizes that a module takes as it is: accepted where one pass of it works, else with its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers import ModelError, Photo, VisionModel, explain, wrap_model
from explainers.look import Look
from explainers.models.preprocessing import Preprocessing
from explainers.pace import measure_pace
from tests.grid_families import grid_model
from tests.other_libraries import build
from tests.own_modules import OwnViT, own_vit
from tests.test_forecast_families import unread
from tests.test_swin_libraries import torchvision_swin, transformers_swin
from tests.tiny import seeded, shake, tiny_encoder, tiny_photo_array

PHOTO = Photo(tiny_photo_array(40, 60))


def small(architecture: str, **given: Any) -> nn.Module:
    with seeded(1):
        return shake(timm.create_model(architecture, num_classes=5, **given), 0.05).eval()


class AnySize(OwnViT):
    """Positions computed from the grid, as those with waves have them."""

    def forward(self, photos: Tensor) -> Tensor:
        cells = (photos.shape[2] // 4) * (photos.shape[3] // 4)
        table = F.interpolate(self.pos_embedding.data.mT[:, :, 1:], cells).mT
        kept = self.pos_embedding.data
        self.pos_embedding.data = torch.cat([kept[:, :1], table], 1)
        try:
            return super().forward(photos)
        finally:
            self.pos_embedding.data = kept


def any_size() -> nn.Module:
    with seeded(2):
        return shake(AnySize()).double().eval()


TAKEN: dict[str, tuple[Any, tuple[int, int], tuple[int, int]]] = {
    "PVT v2": (lambda: grid_model("pvt_v2"), (32, 64), (64, 96)),
    "Twins": (lambda: grid_model("twins"), (32, 64), (40, 72)),
    "XCiT": (lambda: unread("XCiT").module, (64, 64), (48, 96)),
    "MobileViT": (lambda: small("mobilevit_xxs"), (64, 64), (64, 96)),
    "EdgeNeXt": (lambda: small("edgenext_xx_small"), (64, 64), (64, 96)),
    "NextViT": (lambda: small("nextvit_small", depths=(1, 1, 5, 1)), (64, 64), (64, 96)),
    "torchvision Swin": (torchvision_swin, (32, 32), (48, 72)),
    "transformers Swin": (transformers_swin, (32, 32), (48, 72)),
    "transformers ViT": (lambda: build("vit"), (16, 16), (24, 40)),
    "transformers DINOv2": (lambda: build("dinov2"), (16, 16), (24, 40)),
    "own": (any_size, (16, 16), (24, 40)),
}
"""A model, its own size, and another one that it takes itself."""

FIXED: dict[str, tuple[Any, tuple[int, int], str]] = {
    "CaiT": (lambda: unread("CaiT").module, (64, 64), "doesn't match model"),
    "TNT": (lambda: unread("TNT").module, (64, 64), "doesn't match model"),
    "LeViT": (lambda: unread("LeViT").module, (224, 224), "must match the size of tensor"),
    "PiT": (lambda: grid_model("pit"), (32, 32), "must match the size of tensor"),
    "Hiera": (lambda: grid_model("hiera"), (64, 64), "must match the size of tensor"),
    "MViT": (lambda: grid_model("mvitv2"), (64, 64), "must match|out of bounds|out of range"),
    "timm Swin": (lambda: grid_model("swin"), (32, 64), "works in windows"),
    "torchvision ViT": (lambda: build("torchvision"), (16, 16), "Wrong image height"),
    "encoder": (tiny_encoder, (16, 16), "must match the size of tensor"),
    "own": (own_vit, (16, 16), "must match the size of tensor"),
}
"""A model, its own size, and a part of its own reason for no other."""


def wrapped(module: nn.Module, size: tuple[int, int]) -> VisionModel:
    half = (0.5, 0.5, 0.5)
    return wrap_model(module, Preprocessing(size, half, half), size=size)


@pytest.mark.parametrize("name", TAKEN)
def test_a_size_that_the_module_takes_is_taken(name: str) -> None:
    make, own, other = TAKEN[name]
    vit = wrapped(make(), own)
    patch = vit.adapter.patch
    sized = vit.at_size(other)
    trace = sized.trace(PHOTO)
    grid = other[0] // patch[0], other[1] // patch[1]
    assert trace.grid == grid
    assert sized.module is vit.module
    with torch.no_grad():
        given: dict[str, Any] = {"interpolate_pos_encoding": True} if "V" in name else {}
        given = given if name.startswith("transformers") else {}
        answer = vit.module(trace.pixels, **given)
    logits = answer if isinstance(answer, Tensor) else answer["logits"]
    assert torch.allclose(trace.logits, logits, atol=1e-5)
    for method in ("attention", "grad_cam", "occlusion"):
        support = sized.supports(method)
        assert bool(support) == bool(vit.supports(method)), (method, support.reason)
        if support:
            given = {} if method == "attention" else {"target": 1}
            heat = explain(method, trace, **given)
            assert heat.values.shape == grid
            assert np.isfinite(heat.values).all()
    assert vit.trace(PHOTO).grid == (own[0] // patch[0], own[1] // patch[1])
    assert vit.at_size(own) is vit


@pytest.mark.parametrize("name", ["PVT v2", "torchvision Swin", "XCiT", "transformers ViT"])
def test_such_a_look_is_forecast_and_taken(name: str) -> None:
    make, own, other = TAKEN[name]
    vit = wrapped(make(), own)
    look = Look("whole", max(other))
    told = look.forecast(vit, PHOTO, measure_pace(vit))
    trace = look.model(vit, PHOTO).trace(PHOTO)
    held = sum(call.nbytes for call in trace.calls)
    assert told.bytes > held
    if vit.adapter.one_grid_support():
        assert (told.grid, told.tokens) == (trace.grid, trace.tokens)


@pytest.mark.parametrize("name", ["CaiT", "torchvision ViT"])
def test_a_model_of_one_size_is_proposed_no_other(name: str) -> None:
    make, own, _ = FIXED[name]
    vit = wrapped(make(), own)
    pace = measure_pace(vit)
    with pytest.raises(ModelError, match="pixels only"):
        Look("whole", 10_000_000).forecast(vit, PHOTO, pace)
    vit = wrapped(grid_model("pvt_v2"), (32, 64))
    with pytest.raises(ModelError, match="the largest that fits is a long side of"):
        Look("whole", 10_000_000).forecast(vit, PHOTO, measure_pace(vit))


def test_the_size_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    make, own, other = TAKEN["PVT v2"]
    vit = wrapped(make(), own)
    passes: list[Any] = []
    features = vit.module.forward_features

    def counted(pixels: Tensor) -> Tensor:
        passes.append(tuple(pixels.shape[-2:]))
        return features(pixels)

    monkeypatch.setattr(vit.module, "forward_features", counted)
    for _ in range(3):
        vit.at_size(other)
    assert passes == [other]


@pytest.mark.parametrize("name", FIXED)
def test_fixed_positions_are_refused_with_the_models_reason(name: str) -> None:
    make, own, reason = FIXED[name]
    vit = wrapped(make(), own)
    patch = vit.adapter.patch
    other = own[0] + patch[0], own[1] + 2 * patch[1]
    words = rf"takes photos of {own[0]}×{own[1]} pixels only \(.*({reason}).*\)"
    with pytest.raises(ModelError, match=words):
        vit.at_size(other)


def test_a_size_that_suits_no_window_is_refused_and_another_taken() -> None:
    vit = wrapped(grid_model("maxvit"), (32, 64))
    with pytest.raises(ModelError, match=r"does not take photos of 40×64 .*divisible by window"):
        vit.at_size((40, 64))
    assert vit.at_size((64, 64)).trace(PHOTO).grid == tuple(vit.adapter.grid((64, 64)))


def test_a_model_that_takes_some_sizes_only_does_not_say_that_it_takes_one() -> None:
    class Picky(AnySize):
        def forward(self, photos: Tensor) -> Tensor:
            if photos.shape[3] % 16:
                raise ValueError("only multiples of 16")
            return super().forward(photos)

    vit = wrapped(Picky().double().eval(), (16, 16))
    assert vit.at_size((16, 32)).trace(PHOTO).grid == (4, 8)
    with pytest.raises(ModelError, match=r"does not take photos of 16×20 .*only multiples of 16"):
        vit.at_size((16, 20))


def test_a_model_that_resizes_its_photos_is_not_read_at_another_size() -> None:
    class Resizing(OwnViT):
        def forward(self, photos: Tensor) -> Tensor:
            return super().forward(F.interpolate(photos, (16, 16)))

    vit = wrapped(Resizing().double().eval(), (16, 16))
    with pytest.raises(ModelError, match="into other tokens than a 8×8 grid"):
        vit.at_size((32, 32))
