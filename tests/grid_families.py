"""Tiny seeded float64 models of several grids, rectangular where the family takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from timm.models.hiera import Hiera
from timm.models.maxxvit import MaxxVit, MaxxVitCfg, MaxxVitTransformerCfg
from timm.models.mvitv2 import MultiScaleVit, MultiScaleVitCfg
from timm.models.pit import PoolingVisionTransformer
from timm.models.pvt_v2 import PyramidVisionTransformerV2
from timm.models.swin_transformer import SwinTransformer
from timm.models.swin_transformer_v2 import SwinTransformerV2
from timm.models.swin_transformer_v2_cr import SwinTransformerV2Cr
from timm.models.twins import Twins
from torch import nn

from tests.tiny import seeded, shake

SIZE = (32, 64)
CLASSES = 5
_SWIN: dict[str, Any] = {
    "img_size": SIZE,
    "patch_size": 4,
    "window_size": 4,
    "embed_dim": 8,
    "depths": (2, 2),
    "num_heads": (2, 4),
    "num_classes": CLASSES,
}
_STAGES: dict[str, Any] = {"embed_dims": (8, 16), "num_heads": (1, 2), "num_classes": CLASSES}


_HALVED: Any = ((1, 1), (2, 2), (2, 2))


def _maxvit(kinds: tuple[Any, ...], **transformer: Any) -> nn.Module:
    given = {"dim_head": 8, "window_size": (4, 4), "grid_size": (4, 4), **transformer}
    layers = MaxxVitTransformerCfg(**given)
    cut = MaxxVitCfg((8, 16), (1, 1), kinds, stem_width=8, transformer_cfg=layers)
    return MaxxVit(cut, img_size=SIZE, num_classes=CLASSES)


def _mvit(**changed: Any) -> nn.Module:
    cut = MultiScaleVitCfg((1, 1, 2), (8, 16, 16), num_heads=(1, 2, 2), **changed)
    return MultiScaleVit(cut, img_size=(64, 64), num_classes=CLASSES)


FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "swin": lambda: SwinTransformer(**_SWIN),
    "swin_padded": lambda: SwinTransformer(**{**_SWIN, "img_size": (40, 24)}),
    "swin_v2": lambda: SwinTransformerV2(**_SWIN),
    "swin_v2_cr": lambda: SwinTransformerV2Cr(**{**_SWIN, "window_size": (4, 4)}),
    "maxvit": lambda: _maxvit(("M", "M")),
    "maxvit_planes": lambda: _maxvit(("M", "M"), use_nchw_attn=True),
    "maxvit_parallel": lambda: _maxvit(("PM", "PM")),
    "coatnet": lambda: _maxvit(("C", "T")),
    "twins": lambda: Twins(
        img_size=SIZE,
        patch_size=4,
        **_STAGES,
        mlp_ratios=(2, 2),
        depths=(2, 2),
        sr_ratios=(2, 1),
        wss=(4, 4),
    ),
    "twins_padded": lambda: Twins(
        img_size=(40, 24),
        patch_size=4,
        **_STAGES,
        mlp_ratios=(2, 2),
        depths=(2, 1),
        sr_ratios=(2, 1),
        wss=(4, 4),
    ),
    "pvt_v2": lambda: PyramidVisionTransformerV2(
        **_STAGES, mlp_ratios=(2, 2), depths=(2, 1), sr_ratios=(2, 1)
    ),
    "hiera": lambda: Hiera(
        img_size=(64, 64),
        embed_dim=8,
        num_heads=1,
        stages=(1, 2, 1, 1),
        num_classes=CLASSES,
        mask_unit_size=(8, 8),
    ),
    "mvitv2": lambda: _mvit(stride_q=_HALVED),
    "mvitv2_cls": lambda: _mvit(stride_q=_HALVED, use_cls_token=True),
    "mvitv2_plain": lambda: _mvit(stride_q=_HALVED, residual_pooling=False, rel_pos_type=""),
    "pit": lambda: PoolingVisionTransformer(
        img_size=32,
        patch_size=8,
        stride=4,
        base_dims=(8, 8),
        depth=(1, 2),
        heads=(1, 2),
        mlp_ratio=2,
        num_classes=CLASSES,
    ),
}
SIZES = {
    **dict.fromkeys(("swin_padded", "twins_padded"), (40, 24)),
    **dict.fromkeys(("hiera", "mvitv2", "mvitv2_cls", "mvitv2_plain"), (64, 64)),
    "pit": (32, 32),
}
"""Input sizes of the families that are not built for `SIZE`."""


def grid_model(family: str, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A model of a family in evaluation mode, every parameter drawn anew."""
    with seeded(seed):
        module = shake(FAMILIES[family]())
    return module.to(dtype).eval()


def size_of(family: str) -> tuple[int, int]:
    return SIZES.get(family, SIZE)
