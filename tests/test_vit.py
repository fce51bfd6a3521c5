"""The reference ViT: its size, its twins, its positions, and that every method reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn

from explainers import HeatMap, ModelError, explain, load_photo, methods, wrap_model
from explainers.models.positions import Relative, TwoDimensional
from explainers.models.vit import ConciseVisionTransformer, PatchEmbedding, VisionTransformer
from explainers.models.vit_weights import copy_weights, from_timm
from tests.tiny import seeded, shake, tiny_photo_array, tiny_vit

CIFAR: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 4,
    "width": 64,
    "depth": 4,
    "heads": 4,
    "mlp_width": 128,
    "classes": 10,
}
PHOTO = load_photo(tiny_photo_array())


def built(kind: type[nn.Module], dtype: torch.dtype = torch.float64, **more: Any) -> Any:
    with seeded(3):
        return shake(kind(**{**CIFAR, **more}), 0.1).to(dtype).eval()


def pixels(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1)).to(dtype)


def test_both_have_142026_parameters() -> None:
    for kind in (VisionTransformer, ConciseVisionTransformer):
        assert sum(p.numel() for p in built(kind).parameters()) == 142_026


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("embedding", ["linear", "convolution"])
def test_copied_weights_give_the_same_logits(
    dtype: torch.dtype, tolerance: float, embedding: str
) -> None:
    reference = built(VisionTransformer, dtype, embedding=embedding)
    concise = built(ConciseVisionTransformer, dtype)
    x = pixels(dtype)
    with torch.no_grad():
        before = concise(x)
        copy_weights(reference, concise)
        assert not torch.allclose(before, concise(x))
        torch.testing.assert_close(concise(x), reference(x), rtol=0, atol=tolerance)
        other = built(VisionTransformer, dtype)
        copy_weights(concise, other)
        torch.testing.assert_close(other(x), reference(x), rtol=0, atol=tolerance)


def test_a_patch_is_flattened_row_by_row_colours_together() -> None:
    embedding = PatchEmbedding(2, 12)
    with torch.no_grad():
        embedding.projection.weight.copy_(torch.eye(12))
        embedding.projection.bias.zero_()
    x = torch.arange(48.0).reshape(1, 3, 4, 4)
    tokens = embedding(x)
    assert tokens.shape == (1, 4, 12)
    wanted = x[0, :, 0:2, 2:4].permute(1, 2, 0).flatten()  # the patch right of the first
    assert torch.equal(tokens[0, 1], wanted)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("vit_tiny_patch16_224", {"img_size": 32}),
        ("vit_small_patch14_dinov2", {"img_size": (28, 42), "num_classes": 5}),  # LayerScale
        ("vit_tiny_patch16_224", {"img_size": 32, "qkv_bias": False}),
    ],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_from_timm_gives_timms_logits(
    name: str, settings: dict[str, Any], dtype: torch.dtype, tolerance: float
) -> None:
    with seeded(0):
        theirs = shake(timm.create_model(name, depth=2, **settings), 0.05).to(dtype).eval()
    ours = from_timm(theirs)
    x = torch.randn(2, 3, *ours.image_size, generator=torch.Generator().manual_seed(2)).to(dtype)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=tolerance, atol=tolerance)


def test_from_timm_refuses_what_the_reference_is_not() -> None:
    for settings in ({"reg_tokens": 2}, {"global_pool": "avg"}, {"num_classes": 0}):
        with pytest.raises(ModelError, match="plain ViT"):
            from_timm(tiny_vit(**settings))
    with pytest.raises(ModelError, match="one of them only"):
        copy_weights(built(VisionTransformer, depth=3), built(VisionTransformer))
    with pytest.raises(ModelError, match=r"\(128, 64\)"):
        copy_weights(built(VisionTransformer, mlp_width=64), built(VisionTransformer))


def attention_written_out(block: Any, x: Tensor, bias: Tensor | None) -> Tensor:
    qkv = block.attention.qkv(block.norm1(x)).unflatten(-1, (3, 4, -1))
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias
    return block.attention.projection((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("kind", ["1d", "2d", "relative", "none"])
def test_positions(kind: str) -> None:
    module = built(VisionTransformer, positions=kind)
    x = pixels()
    with torch.no_grad():
        tokens, bias = module.tokens(x), module.positions.bias()
        for block in module.layers():
            tokens = tokens + attention_written_out(block, tokens, bias)
            tokens = tokens + block.mlp(block.norm2(tokens))
        torch.testing.assert_close(module(x), module.head(module.norm(tokens)[:, 0]))
        shuffled = x.reshape(2, 3, 8, 4, 8, 4).flip(2).reshape(x.shape)  # rows of patches
        moved = not torch.allclose(module(x), module(shuffled))
    assert moved == (kind != "none")  # without positions the patches are a bag


def test_relative_positions_depend_on_the_offset_only() -> None:
    with seeded(1):
        bias = Relative(3, 4, 2).bias()[0]  # (H, 13, 13)
    at = lambda row, column: 1 + 4 * row + column  # noqa: E731
    assert torch.equal(bias[:, at(0, 0), at(1, 2)], bias[:, at(1, 1), at(2, 3)])
    assert not torch.equal(bias[:, at(0, 0), at(1, 2)], bias[:, at(1, 2), at(0, 0)])
    assert (bias[:, 0, 1:] == bias[:, 0, 1:2]).all()
    assert len(set(bias[0].flatten().tolist())) == 5 * 7 + 3


def test_two_dimensional_positions_are_a_row_and_a_column() -> None:
    with seeded(1):
        table = TwoDimensional(3, 4, 6).table().reshape(3, 4, 6)
    assert torch.equal(table[1, 0, :3], table[1, 3, :3])
    assert torch.equal(table[0, 2, 3:], table[2, 2, 3:])


def test_hybrid_stem_leaves_the_projection_out_where_widths_agree() -> None:
    stem = nn.Sequential(nn.Conv2d(3, 64, 3, stride=2, padding=1), nn.ReLU(), nn.AvgPool2d(4))
    module = built(VisionTransformer, patch_size=1, stem=stem, stem_width=64, stem_stride=8)
    assert module.grid_size == (4, 4)
    assert module(pixels()).shape == (2, 10)
    assert not list(module.embedding.parameters())
    vit = wrap_model(module)
    assert vit.trace(PHOTO).grid == (4, 4)
    assert not vit.adapter.filters_support()


QUICK: dict[str, dict[str, Any]] = {
    "integrated_gradients": {"steps": 2},
    "smoothgrad": {"samples": 2},
    "gradient_shap": {"samples": 4},
    "rise": {"masks": 8},
    "kernel_shap": {"samples": 80},
    "lime": {"samples": 80},
    "occlusion": {"window": 4},
    "score_cam": {"channels": 4},
}


@pytest.mark.parametrize("kind", [VisionTransformer, ConciseVisionTransformer])
def test_every_method_reads_it_like_any_other_model(kind: type[nn.Module]) -> None:
    vit = wrap_model(built(kind, torch.float32))
    trace = vit.trace(PHOTO)
    assert vit.attention_check, vit.attention_check.reason
    for name in methods():
        support = vit.supports(name)
        if not support:
            assert kind is ConciseVisionTransformer
            assert support.reason
            continue
        known = {p.name for p in methods()[name].parameters}
        quick = {key: value for key, value in QUICK.get(name, {}).items() if key in known}
        heat = explain(name, trace, None, **quick)
        assert isinstance(heat, HeatMap)
        assert np.isfinite(heat.values).all()


def test_both_twins_are_explained_alike() -> None:
    reference, concise = built(VisionTransformer), built(ConciseVisionTransformer)
    copy_weights(reference, concise)
    traces = [wrap_model(module).trace(PHOTO) for module in (reference, concise)]
    for name in ("attention", "rollout", "relevance", "saliency", "daam"):
        maps = [explain(name, trace, 3) for trace in traces]
        np.testing.assert_allclose(maps[0].values, maps[1].values, rtol=0, atol=1e-10)  # type: ignore[union-attr]
    filters = [trace.model.adapter.patch_filters() for trace in traces]
    torch.testing.assert_close(filters[0], filters[1])
    torch.testing.assert_close(*(trace.model.adapter.patch_positions() for trace in traces))
