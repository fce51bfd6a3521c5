"""The traps of timm's families, one test each: what is easily taken for something else.

Full token counts, one or two narrow blocks: what is tested is what is read, not how long it takes.
"""

from __future__ import annotations

from typing import Any

import pytest
import timm
import torch
from torch import nn

from explainers import explain, wrap_model
from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from tests.families import build
from tests.tiny import seeded, shake, tiny_photo_array, tiny_vit

PHOTO = Photo(tiny_photo_array(), "photo", ())
NARROW: dict[str, Any] = {"depth": 1, "embed_dim": 16, "num_heads": 2}


def narrow(name: str, **given: Any) -> VisionModel:
    """A timm model by name with its own tokens and grid, of one narrow block."""
    with seeded(0):
        module = shake(timm.create_model(name, pretrained=False, **{**NARROW, **given}))
    return wrap_model(module.eval())


@pytest.mark.parametrize("fused", [True, False])
def test_the_fused_switch_stays_as_it_is(fused: bool) -> None:
    module = tiny_vit()
    for block in module.blocks:
        block.attn.fused_attn = fused
    vit = wrap_model(module)
    vit.trace(PHOTO)
    assert vit.attention_check
    assert [block.attn.fused_attn for block in module.blocks] == [fused] * len(module.blocks)


def test_attention_is_read_before_dropout_and_not_in_training_mode() -> None:
    module = tiny_vit(attn_drop_rate=0.5)
    dropped, plain = wrap_model(module).trace(PHOTO), wrap_model(tiny_vit()).trace(PHOTO)
    assert torch.equal(dropped.attention(1), plain.attention(1))
    module.train()
    with pytest.raises(ModelError, match="training mode"):
        wrap_model(module).trace(PHOTO)


@pytest.mark.parametrize(
    ("name", "tokens", "prefix", "grid"),
    [
        ("vit_base_patch16_224", 197, 1, (14, 14)),
        ("deit_base_distilled_patch16_224", 198, 2, (14, 14)),
        ("vit_base_patch14_reg4_dinov2", 1374, 5, (37, 37)),
        ("vit_base_patch16_siglip_224", 196, 0, (14, 14)),
        ("vit_base_patch16_clip_224", 197, 1, (14, 14)),
        ("vit_small_patch16_dinov3", 261, 5, (16, 16)),
        ("beit_base_patch16_224", 197, 1, (14, 14)),
        ("eva02_tiny_patch14_224", 257, 1, (16, 16)),
        ("vit_pe_core_base_patch16_224", 197, 1, (14, 14)),
    ],
)
def test_tokens_prefix_and_grid(name: str, tokens: int, prefix: int, grid: tuple[int, int]) -> None:
    trace = narrow(name).trace(PHOTO)
    assert (trace.tokens, trace.prefix, trace.grid) == (tokens, prefix, grid)
    assert trace.attention(0, 0, [0]).shape == (1, tokens)
    assert trace.model.attention_check


def test_both_of_a_distilled_models_rows_decide_and_each_can_be_seen() -> None:
    vit = wrap_model(build("distilled"))
    trace = vit.trace(PHOTO)
    assert trace.decision_row().tolist() == [0.5, 0.5, *[0.0] * 15]
    module, seen = vit.module, []
    module.norm.register_forward_hook(lambda _, given, output: seen.append(output))
    with torch.no_grad():
        answer = module(trace.pixels)
        expected = (module.head(seen[0][:, 0]) + module.head_dist(seen[0][:, 1])) / 2
    assert torch.equal(answer, expected)
    maps = [explain("attention", trace, row=row).values for row in (0, 1, None)]
    assert abs((maps[0] + maps[1]) / 2 - maps[2]).max() < 1e-12
    assert abs(maps[0] - maps[1]).max() > 1e-3


@pytest.mark.parametrize("name", ["SigLIP", "SigLIP, prefix", "perception encoder"])
def test_an_attention_pool_decides_by_its_latents_row(name: str) -> None:
    trace = wrap_model(build(name)).trace(PHOTO)
    assert trace.pool is not None
    row = trace.decision_row()
    assert float(row.sum()) == pytest.approx(1)
    included = trace.pool.columns_count == trace.tokens
    assert included or float(row[: trace.prefix].sum()) == 0


@pytest.mark.parametrize("name", ["BEiT", "EVA-02", "RoPE, gate", "average of all", "DINOv3"])
def test_a_cls_token_that_does_not_feed_the_head_does_not_decide(name: str) -> None:
    vit = wrap_model(build(name))
    trace = vit.trace(PHOTO)
    row, patches = trace.decision_row(), trace.tokens - trace.prefix
    every = getattr(vit.module, "pool_include_prefix", False)
    share = 1 / (trace.tokens if every else patches)
    assert row[trace.prefix :].tolist() == pytest.approx([share] * patches)
    assert bool(row[: trace.prefix].any()) is every
    assert explain("attention", trace, row=0).values.shape == trace.grid


@pytest.mark.parametrize(
    ("pooling", "decides"), [("token", True), ("avg", True), ("max", False), ("avgmax", False)]
)
def test_the_pooling_is_read_from_the_module_not_its_name(pooling: str, decides: bool) -> None:
    vit = narrow("vit_base_patch16_224", global_pool=pooling)
    assert bool(vit.supports("rollout")) is decides
    if not decides:
        assert pooling in str(vit.supports("rollout").reason)
        assert vit.supports("attention", row=0)
        assert vit.supports("grad_cam")


@pytest.mark.parametrize("name", ["CLIP", "DINOv2 with registers", "DINOv3"])
def test_headless_models_show_features_and_no_classes(name: str) -> None:
    vit = wrap_model(build(name))
    assert vit.trace(PHOTO).logits is None
    assert "no classification head" in str(vit.supports("grad_cam").reason)
    assert vit.supports("feature_pca")
    assert vit.supports("rollout")


@pytest.mark.parametrize("registers", [0, 4])
def test_positions_without_prefix_rows_are_not_cut(registers: int) -> None:
    vit = narrow("deit3_small_patch16_224", reg_tokens=registers)
    assert vit.module.no_embed_class
    assert vit.adapter.position_grid() == (14, 14)
    assert vit.adapter.patch_positions().shape == (196, 16)
    assert torch.equal(vit.adapter.patch_positions(), vit.module.pos_embed[0])


def test_positions_with_prefix_rows_lose_them() -> None:
    vit = narrow("vit_base_patch16_224")
    assert torch.equal(vit.adapter.patch_positions(), vit.module.pos_embed[0, 1:])


@pytest.mark.parametrize("name", ["DINOv3", "BEiT", "RoPE of every block"])
def test_no_positions_is_said(name: str) -> None:
    support = wrap_model(build(name)).adapter.positions_support()
    assert "positions enter inside attention" in str(support.reason)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("two attentions side by side", "2 attentions side by side"),
        ("differences", "subtracts one attention from another"),
        ("parallel differences", "subtracts one attention from another"),
    ],
)
def test_several_attentions_a_block_are_no_map(name: str, reason: str) -> None:
    vit = wrap_model(build(name))
    for method in ("attention", "rollout", "relevance", "legrad", "value_norm"):
        assert reason in str(vit.supports(method).reason)
    for method in ("grad_cam", "saliency", "occlusion", "feature_pca"):
        assert vit.supports(method), method


def test_a_hybrids_projection_is_not_its_filters() -> None:
    module = timm.create_model("vit_base_r50_s16_224", img_size=64, **NARROW).eval()
    vit = wrap_model(module)
    assert module.patch_embed.proj.weight.shape[1] == 1024
    stem = next(m for m in module.patch_embed.modules() if isinstance(m, nn.Conv2d))
    assert torch.equal(vit.adapter.patch_filters(), stem.weight)
    assert vit.adapter.patch == (16, 16)
    assert vit.adapter.grid((64, 64)) == (4, 4)


@pytest.mark.parametrize("size", [(768, 768), (224, 448)])
def test_the_size_is_the_modules_not_its_configurations(size: tuple[int, int]) -> None:
    vit = narrow("vit_base_patch16_224", img_size=size)
    assert vit.module.pretrained_cfg["input_size"][1:] == (224, 224)
    assert vit.preprocessing.size == size
    assert vit.trained_grids == ((14, 14),)


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("vit_base_patch16_224.augreg2_in21k_ft_in1k", (0.5,) * 3),
        ("vit_base_patch16_siglip_224", (0.5,) * 3),
        ("deit3_small_patch16_224", (0.485, 0.456, 0.406)),
        ("vit_base_patch16_clip_224.openai", (0.48145466, 0.4578275, 0.40821073)),
    ],
)
def test_normalisation_is_the_models_own(name: str, mean: tuple[float, ...]) -> None:
    assert narrow(name).preprocessing.mean == mean


def test_a_naflex_model_has_the_grid_of_its_patches() -> None:
    module = build("NaFlexViT, register")
    for size, grid in (((12, 20), (3, 5)), ((20, 12), (5, 3)), ((32, 8), (8, 2))):
        trace = wrap_model(module, size=size).trace(PHOTO)
        assert trace.grid == grid
        assert trace.tokens == trace.prefix + grid[0] * grid[1]
        assert explain("rollout", trace).values.shape == grid
