"""Swin of torchvision and transformers: rows over the photo's own grid, against a slow twin."""

from __future__ import annotations

import itertools
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
from tests.tiny import CLASSES, seeded, shake, tiny_photo_array

WINDOW, SIZE = 4, (32, 64)
FEW: dict[str, dict[str, Any]] = {
    "kernel_shap": {"samples": 40},
    "lime": {"samples": 20},
    "rise": {"masks": 4},
    "gradient_shap": {"samples": 2},
    "smoothgrad": {"samples": 2},
    "integrated_gradients": {"steps": 4},
}


def torchvision_swin() -> Any:
    from torchvision.models.swin_transformer import SwinTransformer

    with seeded(1):
        module = SwinTransformer([4, 4], 8, [2, 2], [2, 4], [WINDOW] * 2, num_classes=CLASSES)
        shake(module)
    return module.double().eval()


def transformers_swin(kind: str = "SwinForImageClassification") -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=8,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=WINDOW,
        num_labels=CLASSES,
    )
    with seeded(1):
        module = shake(getattr(transformers, kind)(config))
    return module.double().eval()


def wrapped(module: nn.Module, size: tuple[int, int] = SIZE) -> VisionModel:
    return wrap_model(module, Preprocessing(size, (0.5,) * 3, (0.5,) * 3), size=size)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def photo() -> Photo:
    return load_photo(tiny_photo_array())


def blocks_of(module: Any) -> list[tuple[nn.Module, nn.Module, int]]:
    """(norm before the attention, attention, shift) of the four blocks."""
    if hasattr(module, "features"):
        found = [b for s in list(module.features)[1:] if isinstance(s, nn.Sequential) for b in s]
        return [(b.norm1, b.attn, b.attn.shift_size[0]) for b in found]
    found = [b for stage in module.swin.encoder.layers for b in stage.blocks]
    return [(b.layernorm_before, b.attention, WINDOW // 2 * (i % 2)) for i, b in enumerate(found)]


def parts_of(attention: Any) -> tuple[Any, Any, Tensor, int]:
    """(q of tokens, k of tokens, bias table (offsets, heads), heads)."""
    if hasattr(attention, "qkv"):
        width = attention.qkv.in_features

        def part(place: int) -> Any:
            rows = slice(place * width, (place + 1) * width)
            weight, bias = attention.qkv.weight[rows], attention.qkv.bias[rows]
            return lambda tokens: nn.functional.linear(tokens, weight, bias)

        return part(0), part(1), attention.relative_position_bias_table, attention.num_heads
    table = attention.relative_position_bias.relative_position_bias_table
    return attention.q_proj, attention.k_proj, table, attention.num_attention_heads


def slow_attention(attention: Any, tokens: Tensor, grid: tuple[int, int], shift: int) -> Tensor:
    """(H, h·w, h·w) from the definition: cells in one window of the shifted grid, one region."""
    rows, columns = grid
    fits = [side <= WINDOW for side in grid]
    if not hasattr(attention, "qkv"):  # transformers shifts neither way if one of them fits
        fits = [any(fits)] * 2
    shift_down, shift_across = (0 if whole else shift for whole in fits)

    def place(cell: tuple[int, int]) -> tuple[Any, ...]:
        moved = (cell[0] - shift_down) % rows, (cell[1] - shift_across) % columns
        window = tuple(at // WINDOW for at in moved)
        region = tuple(
            0 if at < side - WINDOW else 1 + (at >= side - step)
            for at, side, step in zip(moved, grid, (shift_down, shift_across), strict=True)
        )
        return window, region if shift_down or shift_across else ()

    query, key, table, heads = parts_of(attention)
    q, k = (f(tokens).unflatten(-1, (heads, -1)).transpose(0, 1) for f in (query, key))
    scores = torch.full((heads, rows * columns, rows * columns), -torch.inf, dtype=q.dtype)
    cells = list(itertools.product(range(rows), range(columns)))
    for (i, a), (j, b) in itertools.product(enumerate(cells), repeat=2):
        if place(a) != place(b):
            continue
        moved_a = (a[0] - shift_down) % rows, (a[1] - shift_across) % columns
        moved_b = (b[0] - shift_down) % rows, (b[1] - shift_across) % columns
        down, across = moved_a[0] - moved_b[0], moved_a[1] - moved_b[1]
        entry = (down + WINDOW - 1) * (2 * WINDOW - 1) + across + WINDOW - 1
        scores[:, i, j] = (q[:, i] * k[:, j]).sum(-1) * q.shape[-1] ** -0.5 + table[entry]
    return scores.softmax(-1)


@pytest.mark.parametrize("build", [torchvision_swin, transformers_swin])
def test_rows_are_over_the_grid_windows_and_shifts_undone(build: Any, photo: Photo) -> None:
    vit = wrapped(build())
    trace = vit.trace(photo)
    assert vit.attention_check, vit.attention_check
    read: list[Tensor] = []
    layers = blocks_of(vit.module)
    hooks = [n.register_forward_hook(lambda m, a, o: read.append(o.detach())) for n, _, _ in layers]
    with torch.no_grad():
        own = vit.module(trace.pixels)
    for hook in hooks:
        hook.remove()
    assert trace.logits is not None
    assert torch.allclose(trace.logits, getattr(own, "logits", own), atol=1e-12)
    for block, (_, attention, shift) in enumerate(layers):
        grid = (8, 16) if block < 2 else (4, 8)
        with torch.no_grad():
            tokens = read[block].reshape(grid[0] * grid[1], -1)
            expected = slow_attention(attention, tokens, grid, shift)
        got = trace.attention(block)
        assert torch.allclose(got, expected, atol=1e-10), block


@pytest.mark.parametrize("size", [SIZE, (40, 24), (16, 16)])
def test_every_method_gives_a_map_of_the_last_grid_or_said_no(
    size: tuple[int, int], photo: Photo
) -> None:
    vit = wrapped(torchvision_swin(), size)
    grid = tuple(-(-side // 8) for side in size)
    assert vit.adapter.grid(size) == grid
    trace = vit.trace(photo)
    for method in methods():
        if vit.supports(method):
            values = explain(method, trace, **FEW.get(method, {})).values
            assert np.isfinite(values).all()
            assert values.shape[:2] in (grid, size), method
    assert not vit.supports("rollout")
    assert vit.supports("attention")


def test_headless_and_too_small(photo: Photo) -> None:
    bare = wrapped(transformers_swin("SwinModel"), (32, 32))
    assert bare.classes == 0
    assert bare.trace(photo).grid == (4, 4)
    with pytest.raises(ModelError, match="choose a larger size"):
        wrapped(transformers_swin(), (40, 24))
    assert wrap_model(torchvision_swin()).preprocessing.size == (224, 224)
