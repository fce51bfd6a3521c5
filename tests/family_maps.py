"""timm's designs traced, and their attention written out and put together independently."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from explainers import wrap_model
from explainers.image import Photo
from explainers.models.vision_model import VisionModel
from explainers.trace import Trace
from tests.families import FAMILIES, SIZES, build
from tests.tiny import tiny_photo_array

PHOTO = Photo(tiny_photo_array(), "photo", ())
WITHOUT = {"two attentions side by side", "differences", "parallel differences"}
"""Designs without one attention map a block."""
HEAVY = {"hybrid R26", "hybrid R50", "ViTamin"}
"""Those whose embedding is a network of its own, with fixed widths: a small hybrid is in CI."""


def _cases(names: Iterable[str]) -> list[Any]:
    return [pytest.param(n, marks=pytest.mark.long) if n in HEAVY else n for n in names]


EVERY = _cases(FAMILIES)
WITH = _cases(name for name in FAMILIES if name not in WITHOUT)


def wrapped(name: str) -> VisionModel:
    return wrap_model(build(name), size=SIZES.get(name))


@cache
def traced(name: str) -> Trace:
    return wrapped(name).trace(PHOTO)


def written_out(module: nn.Module) -> nn.Module:
    """A copy that forms its attention step by step, by its own code."""
    twin = copy.deepcopy(module)
    for part in twin.modules():
        if hasattr(part, "fused_attn"):
            part.fused_attn = False
    return twin


def formed(trace: Trace) -> tuple[Tensor, list[Tensor]]:
    """The answer, and each block's attention as the model forms it itself before its dropout."""
    module = written_out(trace.model.module)
    maps: list[Tensor] = []
    for block in core_of(module).blocks:
        owner = getattr(block, "attn", block)
        owner.attn_drop.register_forward_pre_hook(lambda _, given: maps.append(given[0]))
    return module(trace.pixels.clone().requires_grad_(torch.is_grad_enabled())), maps


def core_of(module: nn.Module) -> Any:
    return getattr(module, "encoder", module)


def over_grid(trace: Trace, maps: list[Tensor]) -> list[Tensor]:
    """Maps (H, N, N) of each block, those of windows put on the grid."""
    whole = []
    for block, found in zip(core_of(trace.model.module).blocks, maps, strict=True):
        found = found.reshape(-1, trace.heads, *found.shape[-2:])
        side = getattr(block, "window_size", 0)
        whole.append(from_windows(found, side, trace.grid) if side else found[0])
    return whole


def from_windows(found: Tensor, side: int, grid: tuple[int, int]) -> Tensor:
    """Attention inside windows (W, H, n, n) as attention over the grid (H, h·w, h·w)."""
    across = -(-grid[1] // side)
    places = {}
    for row in range(grid[0]):
        for column in range(grid[1]):
            window = row // side * across + column // side
            places[row * grid[1] + column] = window, row % side * side + column % side
    whole = torch.zeros(found.shape[1], len(places), len(places), dtype=found.dtype)
    for i, (window, query) in places.items():
        for j, (other, key) in places.items():
            if window == other:
                whole[:, i, j] = found[window, :, query, key]
    return whole
