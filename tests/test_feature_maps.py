"""Models of several grids, branches or channel attention, read by their last feature map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn

from explainers import ModelError, explain, load_photo, wrap_model
from explainers.measures.cascade import cascade
from explainers.models.feature_map import find_map, last_map
from tests.grid_families import CLASSES, FAMILIES, grid_model, size_of
from tests.tiny import seeded, shake, tiny_photo_array

PHOTO = load_photo(tiny_photo_array())
MAPS = ["swin", "swin_v2_cr", "maxvit", "twins", "hiera", "pvt_v2"]  # NHWC, NCHW and tokens


@pytest.mark.parametrize("family", MAPS)
def test_features_and_their_gradients_are_those_of_the_last_map(family: str) -> None:
    module: Any = grid_model(family)
    trace = wrap_model(module, size=size_of(family)).trace(PHOTO)
    pixels = trace.pixels.clone().requires_grad_()
    raw = module.forward_features(pixels)
    (gradient,) = torch.autograd.grad(module.forward_head(raw)[0, 2], raw)

    def flat(tensor: Tensor) -> Tensor:
        if tensor.dim() == 4 and tensor.shape[-1] != module.num_features:
            tensor = tensor.permute(0, 2, 3, 1)
        return tensor.reshape(-1, module.num_features)

    features, moved = trace.gradients(2).tensors["output"]
    torch.testing.assert_close(features, flat(raw).detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(moved, flat(gradient), rtol=0, atol=1e-12)
    h, w = trace.grid
    wanted = torch.relu(flat(raw).detach() @ flat(gradient).mean(0)).reshape(h, w)
    heat = explain("grad_cam", trace, 2)
    np.testing.assert_allclose(heat.values, wanted.numpy(), atol=1e-12)
    lengths = explain("token_norm", trace)
    np.testing.assert_allclose(
        lengths.values.ravel(), flat(raw).detach().norm(dim=1).numpy(), atol=1e-12
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_the_answer_stays_the_same_and_gradients_are_the_models_own(family: str) -> None:
    module = grid_model(family)
    before = [p.clone() for p in module.parameters()]
    vit = wrap_model(module, size=size_of(family))
    trace = vit.trace(PHOTO)
    with torch.no_grad():
        assert torch.equal(trace.logits, module(trace.pixels))
    pixels = trace.pixels.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(module(pixels)[0, 3], pixels)
    torch.testing.assert_close(trace.gradients(3).pixels, wanted[0], rtol=0, atol=1e-12)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())


def test_a_class_tokens_patches_are_read_where_they_still_count() -> None:
    """After PiT's last block only the class token is read: the CAM's place is what it looks at."""
    module: Any = grid_model("pit")
    vit = wrap_model(module, size=(32, 32))
    trace = vit.trace(PHOTO)
    block = module.transformers[-1].blocks[-1]
    seen: list[Tensor] = []
    hook = block.norm1.register_forward_hook(lambda _, given, output: seen.append(output))
    answer = module(trace.pixels.clone().requires_grad_())
    hook.remove()
    (gradient,) = torch.autograd.grad(answer[0, 1], seen[0])
    wanted = torch.relu(seen[0][0, 1:].detach() @ gradient[0, 1:].mean(0)).reshape(4, 4)
    assert wanted.any()
    np.testing.assert_allclose(explain("grad_cam", trace, 1).values, wanted.numpy(), atol=1e-12)


def test_the_grid_is_that_of_the_last_map() -> None:
    for family, grid in (("swin", (4, 8)), ("swin_padded", (5, 3)), ("pit", (4, 4))):
        vit = wrap_model(grid_model(family), size=size_of(family))
        assert vit.trace(PHOTO).grid == vit.adapter.grid(vit.preprocessing.size) == grid
    assert wrap_model(grid_model("swin")).adapter.patch == (8, 8)
    for name, size in (("saliency", (4, 8)), ("occlusion", (4, 8)), ("patch_similarity", (4, 8))):
        settings = {"resolution": "patch"} if name == "saliency" else {}
        trace = wrap_model(grid_model("swin")).trace(PHOTO)
        assert explain(name, trace, **settings).values.shape == size


def test_a_model_that_takes_any_size_is_read_at_a_rectangular_one() -> None:
    with seeded(0):
        module = shake(timm.create_model("efficientvit_m0", num_classes=CLASSES), 0.05).eval()
    for size, grid in (((224, 448), (4, 7)), ((224, 224), (4, 4))):
        trace = wrap_model(module, size=size).trace(PHOTO)
        assert trace.grid == grid
        assert explain("hires_cam", trace).values.shape == grid


def test_other_blocks_and_places_are_refused_in_a_sentence() -> None:
    trace = wrap_model(grid_model("swin")).trace(PHOTO)
    for name in ("grad_cam", "eigen_cam", "feature_pca"):
        with pytest.raises(ModelError, match="at its last map only"):
            explain(name, trace, block=0)
    with pytest.raises(ModelError, match="not at norm1"):
        explain("grad_cam", trace, at="norm1")
    with pytest.raises(ModelError, match="no norm that reads its tokens"):
        explain("feature_pca", trace, at="final")


def test_a_size_the_model_does_not_take_is_said() -> None:
    with pytest.raises(ModelError, match="does not take an input of 48×48 pixels"):
        wrap_model(grid_model("swin"), size=(48, 48))


def test_a_model_in_training_mode_is_left_as_it_is() -> None:
    module = grid_model("swin").train()
    with pytest.raises(ModelError, match="eval"):
        wrap_model(module)


def test_shapes_are_found_without_memory() -> None:
    with torch.device("meta"):
        module = timm.create_model("swin_tiny_patch4_window7_224").eval()
    assert find_map(module, (224, 224)).grid == (7, 7)


def test_a_model_that_does_not_attend_is_refused() -> None:
    with pytest.raises(ModelError, match="no classifier with attention"):
        wrap_model(timm.create_model("resnet18").eval())


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("xcit_nano_12_p16_224", {"depth": 2}, "channels attend to channels"),
        ("cait_xxs24_224", {"depth": 2}, "talking heads"),
        ("crossvit_9_240", {}, "cuts the photo twice"),
    ],
)
def test_attention_without_a_map_is_refused_with_the_reason(
    name: str, settings: dict[str, Any], words: str
) -> None:
    with seeded(0):
        module: nn.Module = timm.create_model(name, num_classes=CLASSES, **settings).eval()
    vit = wrap_model(module)
    assert words in str(vit.supports("attention").reason)
    assert not vit.supports("rollout")
    trace = vit.trace(PHOTO)
    for method in ("grad_cam", "saliency", "feature_pca"):
        heat = explain(method, trace)
        assert np.isfinite(heat.values).all()
        assert heat.kind == "pixels" or heat.values.shape[:2] == trace.grid


def test_a_model_whose_blocks_are_not_read_forgets_what_it_learned_as_well() -> None:
    with seeded(0):
        module = timm.create_model("cait_xxs24_224", depth=2, num_classes=CLASSES).eval()
    vit = wrap_model(module)
    ((_, private),) = cascade(vit, 1)
    answer, other = (model.trace(PHOTO).logits for model in (vit, private))
    assert not torch.allclose(answer, other)


def test_the_mark_on_the_last_map_changes_nothing() -> None:
    features = torch.randn(2, 3)
    assert last_map(features) is features


def test_an_encoder_without_an_answer_is_refused_as_such() -> None:
    class Encoder(nn.Module):
        num_classes = 0

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 4, 8, 8)

        def forward_features(self, pixels: Tensor) -> Tensor:
            return self.stem(pixels)

        def forward_head(self, features: Tensor) -> Tensor:
            raise NotImplementedError("Encoder does not classify.")

    with pytest.raises(ModelError, match=r"gives no answer to explain \(Encoder does not classify"):
        find_map(Encoder().eval(), (32, 32))
