"""Tiny seeded models of other libraries, and their attention computed by the library itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor, nn

from tests.tiny import CLASSES, HEADS, PATCH, SQUARE, WIDTH, seeded, shake

DEPTH = 2
WITHOUT_HEAD = {
    "vit_bare": ("ViTModel", "ViTConfig", {}),
    "deit_bare": ("DeiTModel", "DeiTConfig", {}),
    "beit_bare": ("BeitModel", "BeitConfig", {"use_relative_position_bias": True}),
    "dinov2_bare": ("Dinov2Model", "Dinov2Config", {}),
    "registers_bare": ("Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", {}),
    "clip_vision": ("CLIPVisionModel", "CLIPVisionConfig", {}),
    "clip_projection": ("CLIPVisionModelWithProjection", "CLIPVisionConfig", {}),
}
WITH_HEAD = {
    "vit": ("ViTForImageClassification", "ViTConfig", {}),
    "deit": ("DeiTForImageClassification", "DeiTConfig", {}),
    "deit_teacher": ("DeiTForImageClassificationWithTeacher", "DeiTConfig", {}),
    "beit": ("BeitForImageClassification", "BeitConfig", {"use_relative_position_bias": True}),
    "beit_shared": (
        "BeitForImageClassification",
        "BeitConfig",
        {"use_shared_relative_position_bias": True, "use_mean_pooling": False},
    ),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Config", {}),
    "registers": ("Dinov2WithRegistersForImageClassification", "Dinov2WithRegistersConfig", {}),
    "clip": ("CLIPForImageClassification", "CLIPConfig", {}),
}
TRANSFORMERS = {**WITH_HEAD, **WITHOUT_HEAD}
OTHERS = ("torchvision", "open_clip", "open_clip_custom", "open_clip_average")
EVERY = (*TRANSFORMERS, *OTHERS)


def build(name: str, attention: str = "sdpa") -> Any:
    """A float64 module of 2 blocks on 16×16 pixels; the test is skipped without its library."""
    if name in TRANSFORMERS:
        return _transformers(*TRANSFORMERS[name], attention)
    makers: dict[str, Callable[[], nn.Module]] = {
        "torchvision": _torchvision,
        "open_clip": _open_clip,
        "open_clip_custom": lambda: _open_clip(qk_norm=True, scale_attn_inner=True),
        "open_clip_average": lambda: _open_clip(pool_type="avg", final_ln_after_pool=True),
    }
    with seeded(3):
        module = shake(makers[name]())
    return module.double().eval()


def _transformers(kind: str, configuration: str, options: dict[str, Any], attention: str) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {
        "hidden_size": WIDTH,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": HEADS,
        "intermediate_size": 2 * WIDTH,
        "image_size": SQUARE[0],
        "patch_size": PATCH,
    }
    if configuration == "CLIPConfig":
        config = transformers.CLIPConfig(vision_config=sizes, num_labels=CLASSES)
    else:
        config = getattr(transformers, configuration)(**sizes, **options, num_labels=CLASSES)
    config._attn_implementation = attention
    with seeded(3):
        module = shake(getattr(transformers, kind)(config))
    return module.double().eval()


def _torchvision() -> nn.Module:
    from torchvision.models.vision_transformer import VisionTransformer

    return VisionTransformer(SQUARE[0], PATCH, DEPTH, HEADS, WIDTH, 2 * WIDTH, num_classes=CLASSES)


def _open_clip(**options: Any) -> nn.Module:
    reason = "open_clip is not installed"
    towers = pytest.importorskip("open_clip.transformer", reason=reason)
    return towers.VisionTransformer(
        SQUARE[0], PATCH, WIDTH, DEPTH, HEADS, mlp_ratio=2, output_dim=8, **options
    )


def own_attention(name: str, module: Any, pixels: Tensor) -> list[Tensor]:
    """Each block's explicit attention (B, H, N, N), by the library's own means."""
    if name in TRANSFORMERS:
        written = copy.deepcopy(module)
        written.set_attn_implementation("eager")
        return list(written(pixels, output_attentions=True).attentions)
    found: list[Tensor] = []

    def look(attention: Any, args: Any, kwargs: Any) -> None:
        tokens = args[0]
        if isinstance(attention, nn.MultiheadAttention):
            options = {"need_weights": True, "average_attn_weights": False}
            found.append(
                nn.MultiheadAttention.forward(attention, tokens, tokens, tokens, **options)[1]
            )
        else:  # open_clip's own, written out from its definition
            q, k, _ = nn.functional.linear(
                tokens, attention.in_proj_weight, attention.in_proj_bias
            ).chunk(3, -1)
            q, k = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (q, k))
            q, k = attention.ln_q(q), attention.ln_k(k)
            found.append((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1))

    copied = copy.deepcopy(module)
    for part in copied.modules():
        if isinstance(part, nn.MultiheadAttention) or type(part).__name__ == "Attention":
            part.register_forward_pre_hook(look, with_kwargs=True)
    copied(pixels)
    return found
