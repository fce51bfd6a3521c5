"""The smallest model of each design that timm has with one grid of tokens: two blocks each."""

from __future__ import annotations

from functools import partial
from typing import Any

import timm
import torch
from timm.layers import GluMlp, RmsNorm, SimpleNorm, SwiGLU
from timm.models import vision_transformer as vit
from torch import nn

from tests.tiny import seeded, shake

WIDTH = 32
HEADS = 2
CLASSES = 5

_ANY: dict[str, Any] = {"depth": 2, "embed_dim": WIDTH, "num_heads": HEADS, "num_classes": CLASSES}
_PLAIN: dict[str, Any] = {**_ANY, "patch_size": 4, "img_size": (12, 20)}
"""Rectangular wherever the family takes it: no square root can pass for a grid."""


def _plain(**given: Any) -> tuple[str, dict[str, Any]]:
    return "vit_tiny_patch16_224", {**_PLAIN, **given}


def _named(name: str, **given: Any) -> tuple[str, dict[str, Any]]:
    return name, {**_PLAIN, **given}


class _Gated(vit.Attention):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, gated=True, **named)


FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "layer scale": _named("deit3_small_patch16_224"),
    "distilled": _named("deit_tiny_distilled_patch16_224"),
    "post-norm": _plain(block_fn=vit.ResPostBlock, init_values=0.5),
    "parallel": _plain(block_fn=vit.ParallelScalingBlock, qk_norm=True),
    "parallel, one projection": _plain(
        block_fn=partial(vit.ParallelScalingBlock, fuse_out_proj=True), qkv_bias=False
    ),
    "q k norm": _plain(qk_norm=True),
    "RMS norm": _plain(norm_layer=RmsNorm, qk_norm=True),
    "RMS norm in float32": _plain(norm_layer=timm.layers.RmsNormFp32),
    "simple norm": _plain(norm_layer=SimpleNorm),
    "layer norm in float32": _plain(norm_layer=timm.layers.LayerNormFp32),
    "norm of the heads": _plain(scale_attn_norm=True, scale_mlp_norm=True),
    "gate": _plain(attn_layer=_Gated),
    "gated MLP": _plain(mlp_layer=GluMlp),
    "SwiGLU": _plain(mlp_layer=SwiGLU),
    "CLIP": _named("vit_base_patch16_clip_224", num_classes=0),
    "SigLIP": _named("vit_base_patch16_siglip_224"),
    "SigLIP, prefix": _plain(global_pool="map", reg_tokens=2),
    "refined pool": _plain(global_pool="prr"),
    "FlexiViT": _named("flexivit_small"),
    "average": _named("vit_base_patch16_siglip_gap_224"),
    "average of all": _plain(global_pool="avg", pool_include_prefix=True, reg_tokens=1),
    "no position of CLS": _plain(no_embed_class=True, reg_tokens=4),
    "no positions": _plain(pos_embed="none"),
    "maximum": _plain(global_pool="max"),
    "any size": _plain(dynamic_img_size=True),
    "DINOv2 with registers": _named("vit_small_patch14_reg4_dinov2", num_classes=0),
    "two attentions side by side": _plain(block_fn=vit.ParallelThingsBlock),
    "differences": _plain(attn_layer="diff"),
    "parallel differences": _plain(block_fn=vit.DiffParallelScalingBlock),
    "EVA": _named("eva_giant_patch14_224"),
    "EVA-02": _named("eva02_tiny_patch14_224"),
    "EVA-02, norm of the heads": _named("eva02_base_patch14_448"),
    "EVA, post-norm": _named("eva02_enormous_patch14_clip_224"),
    "DINOv3": _named("vit_small_patch16_dinov3", num_classes=0),
    "DINOv3, SwiGLU": _named("vit_small_plus_patch16_dinov3_qkvb", num_classes=0),
    "perception encoder": _named("vit_pe_core_tiny_patch16_384"),
    "RoPE of every block": _named("vit_small_patch16_rope_mixed_224"),
    "RoPE, gate": _named("vit_medium_patch16_rope_reg1_gap_256", attn_type="rope"),
    "shared keys": _named("vit_base_patch16_sapiens2", num_kv_heads=1, num_classes=0),
    "BEiT": _named("beit_base_patch16_224"),
    "BEiTv2": _named("beitv2_base_patch16_224", use_shared_rel_pos_bias=True),
    "relative positions": _named("vit_relpos_small_patch16_224"),
    "relative positions, shared": _named("vit_srelpos_small_patch16_224"),
    "relative positions, post-norm": _named("vit_relpos_medium_patch16_rpn_224"),
    "relative positions, CLS": _named("vit_relpos_base_patch16_cls_224"),
    "NaFlexViT": ("naflexvit_base_patch16_map", {**_ANY, "patch_size": 4}),
    "NaFlexViT, register": ("naflexvit_so150m2_patch16_reg1_gap", {**_ANY, "patch_size": 4}),
    "NaFlexViT, factorised": ("naflexvit_base_patch16_parfac_gap", {**_ANY, "patch_size": 4}),
    "hybrid": ("vit_tiny_r_s16_p8_224", {**_ANY, "img_size": 64}),
    "hybrid R26": ("vit_small_r26_s32_224", {**_ANY, "img_size": 64}),
    "hybrid R50": ("vit_base_r50_s16_224", {**_ANY, "img_size": 64}),
    "ViTamin": ("vitamin_small_224", {"depth": 1, "num_classes": 5, "img_size": 64}),
    "SAM": _named(
        "samvit_base_patch16", window_size=3, global_attn_indexes=(1,), img_size=(12, 24)
    ),
    "SAM, padded": _named("samvit_base_patch16", window_size=2, img_size=(12, 20)),
    "DeepSeek": _named("deepseek_vit_412m"),
    "DeepSeek, projector": _named(
        "deepseek_vit_412m_align", out_features=16, downsample_ratio=2, img_size=(8, 16)
    ),
    "DeepSeek, encoder": _named(
        "deepseek_vit_412m_enc",
        out_features=16,
        downsample_ratio=2,
        img_size=(8, 16),
        num_classes=0,
    ),
    "Qwen3": _named("qwen3_vit_88m"),
    "Qwen3, encoder": _named("qwen3_vit_88m_enc", img_size=(8, 16), num_classes=0),
    "Gemma 4": _named(
        "gemma4_vit_167m",
        head_dim=16,
        intermediate_size=64,
        position_embedding_size=32,
        use_clipped_linears=True,
    ),
    "Gemma 4, pooled": _named(
        "gemma4_vit_167m",
        head_dim=16,
        intermediate_size=64,
        position_embedding_size=32,
        encoder_pool="soft",
        pooling_kernel_size=1,
    ),
}

SIZES = {name: (12, 20) for name in FAMILIES if name.startswith(("NaFlex", "Gemma"))}
"""Sizes of the input (height, width) for those that can be asked for any."""


def build(name: str, dtype: torch.dtype = torch.float64, seed: int = 0, **given: Any) -> nn.Module:
    """One of `FAMILIES` with seeded weights, in evaluation mode."""
    architecture, settings = FAMILIES[name]
    with seeded(seed):
        module = timm.create_model(architecture, pretrained=False, **{**settings, **given})
        shake(module)
    return module.to(dtype).eval()
