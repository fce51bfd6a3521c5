"""Filters and positions of timm's designs: what the embedding multiplies with and adds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from explainers.models.errors import ModelError
from tests.family_maps import HEAVY, traced


@pytest.mark.parametrize("name", ["NaFlexViT", "Gemma 4", "SAM", "Qwen3"])
def test_filters_are_what_the_embedding_multiplies_with(name: str) -> None:
    """A change of one pixel changes its patch's token by the filters' weights there."""
    trace = traced(name)
    adapter = trace.model.adapter
    filters = adapter.patch_filters()  # (D, 3, height, width)
    (height, width), (rows, columns) = adapter.patch, trace.grid
    at = 1, 2
    changed = trace.pixels.clone()
    changed[0, 2, at[0] * height + 1, at[1] * width + 3] += 1e-3
    embedding = (
        getattr(getattr(trace.model.module, "encoder", trace.model.module), "patch_embed", None)
        or trace.model.module.embeds
    )
    with torch.no_grad():
        both = [embedding(pixels) for pixels in (trace.pixels, changed)]
    before, after = (t[0] if isinstance(t, tuple) else t for t in both)
    moved = (after - before).reshape(-1, len(filters))[-rows * columns :] / 1e-3
    factor = 2.0 if name == "Gemma 4" else 1.0  # its embedding scales pixels to −1..1 itself
    index = at[0] * columns + at[1]
    torch.testing.assert_close(moved[index], factor * filters[:, 2, 1, 3], rtol=1e-6, atol=1e-9)
    moved[index] = 0
    assert moved.abs().max() == 0


@pytest.mark.parametrize("name", ["hybrid", *sorted(HEAVY)])
def test_a_hybrids_filters_are_its_stems(name: str) -> None:
    vit = traced(name).model
    stem = next(m for m in vit.module.patch_embed.modules() if isinstance(m, nn.Conv2d))
    assert stem.in_channels == 3
    assert torch.equal(vit.adapter.patch_filters(), stem.weight)


@pytest.mark.parametrize(
    "name", ["DINOv3", "BEiT", "relative positions", "DeepSeek", "RoPE, gate", "no positions"]
)
def test_models_without_learned_positions_say_so(name: str) -> None:
    adapter = traced(name).model.adapter
    support = adapter.positions_support()
    assert "learns no position embedding" in str(support.reason)
    with pytest.raises(ModelError, match="learns no position embedding"):
        adapter.patch_positions()


@pytest.mark.parametrize("name", ["NaFlexViT", "NaFlexViT, factorised", "Qwen3", "SAM", "EVA-02"])
def test_positions_are_those_of_the_stored_grid(name: str) -> None:
    adapter = traced(name).model.adapter
    rows, columns = adapter.position_grid()
    assert adapter.patch_positions().shape[0] == rows * columns
