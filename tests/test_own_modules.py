"""Modules of someone's own making, read by what their forward pass does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import explain, load_photo, methods, wrap_model
from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.preprocessing import Preprocessing
from explainers.models.vision_model import VisionModel
from tests.own_modules import OwnViT, own_vit
from tests.tiny import (
    CLASSES,
    RECTANGLE,
    SQUARE,
    EncoderViT,
    tiny_encoder,
    tiny_photo_array,
    tiny_pixels,
    tiny_vit,
)

FEW: dict[str, dict[str, Any]] = {
    "kernel_shap": {"samples": 40},
    "lime": {"samples": 20},
    "rise": {"masks": 4},
    "vit_cx": {},
}


@pytest.fixture(scope="module")
def photo() -> Photo:
    return load_photo(tiny_photo_array())


def wrapped(module: nn.Module, size: tuple[int, int] = SQUARE) -> VisionModel:
    return wrap_model(module, Preprocessing(size, (0.5,) * 3, (0.5,) * 3), size=size)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "pooling"),
    [
        ({"way": "sdpa"}, "token"),
        ({"way": "written"}, "token"),
        ({"way": "written", "pool": "patches", "extra": 0}, "avg"),
        ({"way": "sdpa", "pool": "patches", "extra": 2}, "avg"),
        ({"way": "sdpa", "pool": "all", "extra": 5}, "all"),
        ({"way": "sdpa", "linear": True}, "token"),
        ({"way": "sdpa", "size": RECTANGLE}, "token"),
        ({"way": "sdpa", "post_norm": True}, "token"),
    ],
    ids=str,
)
def test_attention_grid_and_decision_are_found(
    options: dict[str, Any], pooling: str, photo: Photo
) -> None:
    module = own_vit(**options)
    size = options.get("size", SQUARE)
    vit = wrapped(module, size)
    trace = vit.trace(photo)
    assert vit.attention_check, vit.attention_check
    assert (vit.adapter.pooling, vit.classes) == (pooling, CLASSES)
    assert trace.grid == (size[0] // 4, size[1] // 4)
    assert trace.prefix == options.get("extra", 1)
    assert vit.adapter.patch_positions().shape == (trace.tokens - trace.prefix, 16)
    for block, layer in enumerate(module.layers):
        expected: Tensor = layer.look.seen[0]
        assert torch.allclose(trace.attention(block), expected, atol=1e-10)
    if options.get("post_norm"):
        assert not vit.supports("grad_cam")
    else:
        streams = [trace.features("output", block) for block in range(3)]
        x = trace.pixels
        x = torch.cat([module.extra, _patches(module, x)], 1) + module.pos_embedding
        for block, layer in enumerate(module.layers):
            x = layer(x)
            assert torch.allclose(streams[block], x[0], atol=1e-10)
    for name, declared in methods().items():
        if vit.supports(name) and declared.question != "without":
            values = explain(name, trace).values
            assert np.isfinite(values).all()
            assert values.shape[:2] in (trace.grid, size)


def _patches(module: OwnViT, pixels: Tensor) -> Tensor:
    if module.patches is None:
        return module.cut(torch.nn.functional.unfold(pixels, 4, stride=4).transpose(1, 2))
    return module.patches(pixels).flatten(2).transpose(1, 2)


def test_attention_that_cannot_be_followed_is_refused_and_the_rest_works(photo: Photo) -> None:
    vit = wrapped(own_vit(way="einsum"))
    support = vit.supports("rollout")
    assert not support
    assert support.reason is not None
    trace = vit.trace(photo)
    for name in ("saliency", "integrated_gradients", "occlusion"):
        assert np.isfinite(explain(name, trace).values).all()


class TwoAnswers(EncoderViT):
    def forward(self, pixels: Tensor) -> Any:
        return super().forward(pixels), pixels


def test_what_is_no_transformer_and_what_cannot_run_is_said() -> None:
    convolutions = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )
    with pytest.raises(ModelError, match="no Vision Transformer"):
        wrap_model(convolutions.eval(), size=16)
    with pytest.raises(ModelError, match="give size="):
        wrap_model(own_vit())
    with pytest.raises(ModelError, match="could not be run on a photo of 20×20"):
        wrap_model(own_vit(), size=20)
    with pytest.raises(ModelError, match="could not be run on a photo of 24×24"):
        wrap_model(tiny_encoder(), size=24)
    with pytest.raises(ModelError, match=r"answered with \(1, 8, 14, 14\)"):
        wrap_model(convolutions[:1].eval(), size=16)
    with pytest.raises(ModelError, match="answered with tuple"):
        wrap_model(TwoAnswers().eval(), size=16)


# -- compiled, wrapped, scripted, quantised ----------------------------------------------------


def test_wrappers_are_taken_off(photo: Photo) -> None:
    module = tiny_vit()
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    plain = wrap_model(module)
    expected = explain("relevance", plain.trace(photo), target=1).values
    wrappers = [
        torch.compile(module, backend="eager"),
        nn.DataParallel(module),
        nn.DataParallel(torch.compile(module, backend="eager")),
    ]
    for wrapper in wrappers:
        vit = wrap_model(wrapper.eval())
        assert vit.module is module
        assert np.array_equal(explain("relevance", vit.trace(photo), target=1).values, expected)
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_a_module_compiled_in_place_is_seen_as_it_was(photo: Photo) -> None:
    expected = explain("relevance", wrap_model(tiny_vit()).trace(photo), target=1).values
    whole, parts = tiny_vit(), tiny_vit()
    whole.compile(backend="eager")
    for block in parts.blocks:  # type: ignore[union-attr]
        block.compile(backend="eager")
    for module in (whole, parts):
        vit = wrap_model(module)
        trace = vit.trace(photo)
        assert vit.attention_check, vit.attention_check
        assert np.allclose(explain("relevance", trace, target=1).values, expected, atol=1e-12)
        assert np.isfinite(explain("occlusion", trace, target=1).values).all()


@pytest.mark.filterwarnings("ignore")  # torch's own, about TorchScript's age
def test_torchscript_answers_and_its_attention_is_refused(photo: Photo) -> None:
    module = tiny_vit(dtype=torch.float32)
    with torch.no_grad():
        scripted: Any = torch.jit.trace(module, tiny_pixels(dtype=torch.float32))
    vit = wrapped(scripted)
    reference = wrapped(module)
    assert vit.classes == CLASSES
    assert vit.adapter.patch == (4, 4)
    for name in ("rollout", "relevance", "grad_cam"):
        support = vit.supports(name)
        assert not support
    assert "compiled to a program" in str(vit.supports("rollout").reason)
    trace, plain = vit.trace(photo), reference.trace(photo)
    for name in ("saliency", "occlusion", "rise"):
        ours = explain(name, trace, target=2, **FEW.get(name, {})).values
        theirs = explain(name, plain, target=2, **FEW.get(name, {})).values
        assert np.allclose(ours, theirs, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # torch's own, about torch.ao's age
def test_a_quantised_model_is_perturbed_and_looked_into(photo: Photo) -> None:
    module = tiny_vit(dtype=torch.float32)
    small = torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)
    vit = wrapped(small)
    trace = vit.trace(photo)
    assert trace.logits is not None
    reason = vit.supports("saliency").reason
    assert reason is not None
    assert "whole numbers" in str(reason)
    for name, declared in methods().items():
        if vit.supports(name) and declared.question in ("look", "without"):
            values = explain(name, trace, **FEW.get(name, {})).values
            assert np.isfinite(values).all(), name
    assert vit.supports("occlusion")
