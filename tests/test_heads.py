"""Mean attention distance and entropy of heads: closed forms, a slow twin, and the chart."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from explainers import load_photo, wrap_model
from explainers.render.head_charts import head_chart
from explainers.views.heads import head_figures, patch_distances
from tests.tiny import VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
OTHER = load_photo(tiny_photo_array(seed=9))


@pytest.mark.parametrize(
    ("grid", "patch", "mean"),
    [
        ((14, 14), 16, 116.49222709),
        ((7, 7), 32, 115.50289),
        ((16, 16), 14, 116.56505),
        ((24, 24), 16, 200.04798),
        ((37, 37), 14, 269.99188),
        ((14, 28), 16, 180.06471),
    ],
)
def test_distance_of_uniform_attention(grid: tuple[int, int], patch: int, mean: float) -> None:
    between = patch_distances(grid, (patch, patch))
    assert float(between.mean()) == pytest.approx(mean, rel=1e-7)
    assert float(between.diagonal().abs().max()) == 0
    if grid == (14, 14):
        assert float(between.max()) == pytest.approx(294.156, abs=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_figures_equal_their_definitions(variant: str) -> None:
    trace = wrap_model(tiny_vit(**VARIANTS[variant])).trace(PHOTO)
    found = head_figures(trace)
    p, (rows, columns) = trace.prefix, trace.grid
    places = [(4 * r, 4 * c) for r in range(rows) for c in range(columns)]
    for block in range(trace.depth):
        for head in range(trace.heads):
            A = trace.attention(block, head)
            reach, entropy = 0.0, 0.0
            for i in range(trace.tokens):
                entropy -= sum(float(a) * math.log(a) for a in A[i])
                if i >= p:
                    row = A[i, p:] / A[i, p:].sum()
                    reach += sum(
                        float(row[j]) * math.dist(places[i - p], places[j])
                        for j in range(len(places))
                    )
            assert found.distance[block, head] == pytest.approx(reach / len(places))
            wanted = entropy / trace.tokens / math.log(trace.tokens)
            assert found.entropy[block, head] == pytest.approx(wanted)


def test_uniform_attention_with_half_on_cls_keeps_its_distance() -> None:
    """Without renormalising after the prefix is dropped it would seem to be half as far."""
    module = tiny_vit(size=(56, 56))
    with torch.no_grad():
        for block in module.blocks:  # queries of zero look everywhere alike
            block.attn.qkv.weight[:16] = 0
            block.attn.qkv.bias[:16] = 0
    found = head_figures(wrap_model(module).trace(PHOTO))
    np.testing.assert_allclose(found.distance, 116.49222709 / 4, rtol=1e-7)  # patches of 4 px
    np.testing.assert_allclose(found.entropy, 1.0)


def test_photos_are_averaged() -> None:
    vit = wrap_model(tiny_vit())
    both = head_figures(vit.trace([PHOTO, OTHER]))
    single = [head_figures(vit.trace(photo)).distance for photo in (PHOTO, OTHER)]
    np.testing.assert_allclose(both.distance, np.mean(single, axis=0))


def test_chart_is_a_picture() -> None:
    found = head_figures(wrap_model(tiny_vit()).trace(PHOTO))
    picture = head_chart(found.distance, "mean attention distance (px)")
    assert picture.width > 500
    assert np.asarray(picture).std() > 5
