"""Likeness of position embeddings: against a slow twin, on any grid, or the reason why not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from explainers import wrap_model
from explainers.models.vision_model import VisionModel
from explainers.sentence import Sentence
from explainers.views.filters import principal, raw
from explainers.views.positions import MOST, position_similarity
from tests.learned_views import wrapped
from tests.tiny import PATCH, RECTANGLE, WIDTH, tiny_encoder, tiny_vit

TABLES: dict[str, tuple[dict[str, Any], int, tuple[int, int]]] = {
    # arguments, prefix rows in the stored table, grid
    "plain": ({}, 1, (4, 4)),
    "rectangle": ({"size": RECTANGLE}, 1, (3, 5)),
    "registers": ({"reg_tokens": 2}, 3, (4, 4)),
    "registers without positions": ({"reg_tokens": 2, "no_embed_class": True}, 0, (4, 4)),
    "class token without position": ({"no_embed_class": True}, 0, (4, 4)),
    "distilled": ({"distilled": True}, 2, (4, 4)),
    "distilled rectangle": ({"distilled": True, "size": RECTANGLE}, 2, (3, 5)),
    "no class token": ({"class_token": False, "global_pool": "avg"}, 0, (4, 4)),
    "any size": ({"dynamic_img_size": True}, 1, (4, 4)),
}


def slow_similarity(table: Tensor, prefix: int, grid: tuple[int, int]) -> np.ndarray:
    """Cosines by the definition, patch by patch."""
    h, w = grid
    rows = table[0, prefix:].detach().numpy()
    assert len(rows) == h * w
    answer = np.zeros((h, w, h, w))
    for i, j, k, m in np.ndindex(answer.shape):
        a, b = rows[i * w + j], rows[k * w + m]
        answer[i, j, k, m] = a @ b / math.sqrt((a @ a) * (b @ b))
    return answer


@pytest.mark.parametrize("name", TABLES)
def test_similarity_equals_the_slow_twin(name: str) -> None:
    arguments, prefix, grid = TABLES[name]
    vit = wrapped(**arguments)
    positions = position_similarity(vit)
    assert positions.grid == grid
    expected = slow_similarity(vit.module.pos_embed, prefix, grid)
    assert np.abs(positions.similarity - expected).max() < 1e-6


def test_own_cell_is_one_and_similarity_is_symmetric() -> None:
    similarity = position_similarity(wrapped(size=RECTANGLE)).similarity
    h, w = similarity.shape[:2]
    for i, j in np.ndindex(h, w):
        assert similarity[i, j, i, j] == 1
    assert (similarity == similarity.transpose(2, 3, 0, 1)).all()
    assert np.abs(similarity).max() <= 1
    assert (similarity < 1).sum() == (h * w) ** 2 - h * w


def test_planted_positions_are_told_apart() -> None:
    """One direction a row and one a column: 1 itself, ½ in its row or column, else 0."""
    vit = wrapped(size=RECTANGLE)
    with torch.no_grad():
        table = torch.zeros(3, 5, WIDTH, dtype=torch.float64)
        for i, j in np.ndindex(3, 5):
            table[i, j, i] = table[i, j, 3 + j] = 1 + i + j  # the length does not count
        vit.module.pos_embed[0, 1:] = table.flatten(0, 1)
        vit.module.pos_embed[0, 0] = 1e6
    similarity = position_similarity(vit).similarity
    for i, j, k, m in np.ndindex(similarity.shape):
        assert similarity[i, j, k, m] == pytest.approx(((i == k) + (j == m)) / 2)


def test_an_embedding_of_zeros_is_still_like_itself() -> None:
    vit = wrapped()
    with torch.no_grad():
        vit.module.pos_embed.zero_()
    similarity = position_similarity(vit).similarity
    assert similarity.sum() == 16
    assert np.isfinite(similarity).all()


def test_transformer_encoder_models_are_read() -> None:
    vit = wrap_model(tiny_encoder(size=RECTANGLE), size=RECTANGLE)
    positions = position_similarity(vit)
    expected = slow_similarity(vit.module.pos_embed, 1, (3, 5))
    assert np.abs(positions.similarity - expected).max() < 1e-6
    assert raw(vit).filters.shape == (WIDTH, PATCH, PATCH, 3)


def test_another_grid_is_what_the_model_itself_adds() -> None:
    """The positions at another input size are read off the model run at that size."""
    vit = wrapped(dynamic_img_size=True, pos_drop_rate=0.0)
    seen: list[Tensor] = []
    with torch.no_grad():
        vit.module.patch_embed.proj.weight.zero_()
        vit.module.patch_embed.proj.bias.zero_()
        handle = vit.module.pos_drop.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
        vit.module(torch.zeros(1, 3, 24, 32, dtype=torch.float64))
        handle.remove()
    expected = slow_similarity(seen[0], 1, (6, 8))
    positions = position_similarity(vit, (6, 8))
    assert positions.grid == (6, 8)
    assert np.abs(positions.similarity - expected).max() < 1e-5


@pytest.mark.parametrize("grid", [(0, 4), (-1, 4), (MOST, 2)])
def test_an_impossible_grid_is_refused(grid: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"1 to {MOST} patches"):
        position_similarity(wrapped(), grid)


def test_models_without_positions_give_the_reason() -> None:
    vit = wrapped(pos_embed="none")
    assert not vit.adapter.positions_support()
    with pytest.raises(ValueError, match="no position embedding") as caught:
        position_similarity(vit)
    assert isinstance(caught.value.args[0], Sentence)


def test_looking_changes_nothing() -> None:
    module = tiny_vit()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    vit = wrap_model(module)
    raw(vit).filters[:] = 0
    position_similarity(vit, (7, 7))
    principal(vit)
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_the_embedded_model_knows_its_neighbourhood(embedded: VisionModel) -> None:
    similarity = position_similarity(embedded).similarity  # (14, 14, 14, 14)
    assert similarity.shape == (14,) * 4
    y, x = np.mgrid[:14, :14]
    for i, j in np.ndindex(14, 14):
        away = np.hypot(y - i, x - j)
        assert similarity[i, j][away == 1].mean() > similarity[i, j][away > 5].mean() + 0.2
    grid = principal(embedded)
    assert grid.filters.shape == (28, 14, 14, 3)
    assert grid.total == 384
