"""What a model has learned of colours and places: patch filters and position embeddings."""

from __future__ import annotations

import math
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from torch import Tensor

from explainers import wrap_model
from explainers.models.vision_model import VisionModel
from explainers.render.charts import MARK, display_filters, filter_sheet, margins, position_sheet
from explainers.sentence import Sentence
from explainers.views.filters import FilterGrid, principal, raw
from explainers.views.positions import MOST, PositionSimilarity, position_similarity
from tests.tiny import PATCH, RECTANGLE, WIDTH, tiny_encoder, tiny_vit


def wrapped(**arguments: Any) -> VisionModel:
    return wrap_model(tiny_vit(**arguments))


# Filters


def test_raw_filters_are_the_weights_channels_last() -> None:
    vit = wrapped()
    grid = raw(vit)
    weight = vit.module.patch_embed.proj.weight.detach().numpy()  # (D, 3, ph, pw)
    assert grid.filters.shape == (WIDTH, PATCH, PATCH, 3)
    assert grid.total == WIDTH
    assert grid.variance is None
    for d, channel, y, x in np.ndindex(weight.shape):
        assert grid.filters[d, y, x, channel] == weight[d, channel, y, x]


def slow_components(filters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Principal components by the definition: eigenvectors of the covariance, one by one."""
    flat = filters.reshape(len(filters), -1)
    mean = flat.mean(axis=0)
    covariance = np.zeros((flat.shape[1],) * 2)
    for row in flat:
        covariance += np.outer(row - mean, row - mean)
    power, vectors = np.linalg.eigh(covariance)
    order = np.argsort(power)[::-1]
    components = []
    for index in order:
        vector = vectors[:, index]
        components.append(vector if vector[np.abs(vector).argmax()] > 0 else -vector)
    return np.array(components), power[order] / power.sum()


def test_components_equal_the_slow_twin() -> None:
    vit = wrapped()
    grid = principal(vit, 10)
    components, variance = slow_components(raw(vit).filters)
    assert grid.filters.shape == (10, PATCH, PATCH, 3)
    assert np.abs(grid.filters.reshape(10, -1) - components[:10]).max() < 1e-9
    assert grid.variance == pytest.approx(variance[:10], abs=1e-12)
    assert grid.total == WIDTH


def test_components_are_orthonormal_and_sum_to_all_variance() -> None:
    grid = principal(wrapped(), 1000)
    assert len(grid.filters) == WIDTH - 1  # centring takes one direction away
    flat = grid.filters.reshape(len(grid.filters), -1)
    assert np.abs(flat @ flat.T - np.eye(len(flat))).max() < 1e-12
    assert grid.variance is not None
    assert grid.variance.sum() == pytest.approx(1)
    assert (np.diff(grid.variance) <= 0).all()


def test_a_planted_component_is_found_with_its_sign() -> None:
    vit = wrapped()
    pattern = torch.zeros(3, PATCH, PATCH, dtype=torch.float64)
    pattern[0, 1, 2], pattern[2, 3, 3] = -3.0, 1.0
    with torch.no_grad():
        amounts = torch.linspace(-1, 1, WIDTH, dtype=torch.float64)
        vit.module.patch_embed.proj.weight.copy_(amounts[:, None, None, None] * pattern + 5)
    grid = principal(vit, 28)
    expected = -pattern / pattern.norm()  # its largest entry becomes positive
    assert np.abs(grid.filters[0] - expected.permute(1, 2, 0).numpy()).max() < 1e-12
    assert grid.variance is not None
    assert grid.variance[0] == pytest.approx(1)


def test_equal_filters_have_no_variance() -> None:
    vit = wrapped()
    with torch.no_grad():
        vit.module.patch_embed.proj.weight.fill_(0.25)
    grid = principal(vit)
    assert np.isfinite(grid.filters).all()
    assert (grid.variance == 0).all()
    filter_sheet(grid)


@pytest.mark.parametrize("count", [0, -3])
def test_a_count_below_one_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        principal(wrapped(), count)


def test_models_without_rgb_filters_give_the_reason() -> None:
    vit = wrapped(in_chans=1)
    support = vit.adapter.filters_support()
    assert not support
    for view in (raw, principal):
        with pytest.raises(ValueError, match="no filters") as caught:
            view(vit)
        assert caught.value.args[0] == support.reason
        assert isinstance(caught.value.args[0], Sentence)


def test_half_precision_filters_are_read() -> None:
    expected = raw(wrapped()).filters
    grid = raw(wrapped(dtype=torch.bfloat16))
    assert grid.filters.dtype == np.float64
    assert np.abs(grid.filters - expected).max() < 0.02


# Positions

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


# Sheets


def test_each_filter_is_scaled_alone_and_keeps_its_sign() -> None:
    filters = np.zeros((3, 2, 2, 3))
    filters[0, 0, 0] = (2, -2, 0)
    filters[1, 1, 1] = (1e-9, -5e-10, 0)
    shown = display_filters(filters)
    assert shown[0, 0, 0].tolist() == [255, 0, 128]
    assert shown[1, 1, 1].tolist() == [255, 64, 128]
    assert (shown[2] == 128).all()
    mirrored = display_filters(-filters).astype(int)
    assert np.abs(mirrored + shown - 255).max() <= 1


def test_filter_sheets_hold_every_tile() -> None:
    random = np.random.default_rng(0)
    filters = random.normal(size=(10, 4, 4, 3))
    sheet = np.asarray(filter_sheet(FilterGrid(filters, None, 10), width=200, columns=5))[..., :3]
    tiles = display_filters(filters)
    zoom = 200 // 5 // 5
    gap = max(2, 4 * zoom // 16)
    for index in range(10):
        top, left = (gap + n * (4 * zoom + gap) for n in divmod(index, 5))
        tile = sheet[top : top + 4 * zoom, left : left + 4 * zoom]
        assert (tile[zoom // 2 :: zoom, zoom // 2 :: zoom] == tiles[index]).all()


@pytest.mark.parametrize(
    ("count", "patch"), [(1, (4, 4)), (28, (14, 14)), (1024, (32, 16)), (1024, (32, 32))]
)
def test_filter_sheets_have_a_bounded_size(count: int, patch: tuple[int, int]) -> None:
    filters = np.random.default_rng(0).normal(size=(count, *patch, 3))
    for variance in (None, np.full(count, 1 / count)):
        if variance is not None and count > 100:
            continue
        sheet = filter_sheet(FilterGrid(filters, variance, count))
        assert sheet.width <= 900
        assert sheet.height <= 1500


def wave(h: int, w: int) -> PositionSimilarity:
    """Positions made of cosines, as models learn them."""
    y, x = np.mgrid[:h, :w].reshape(2, -1) + 0.5
    rows = np.stack([np.cos(np.pi * k * v / n) for k in (1, 2) for v, n in ((y, h), (x, w))])
    unit = rows / np.linalg.norm(rows, axis=0)
    return PositionSimilarity((unit.T @ unit).reshape(h, w, h, w).astype(np.float32))


@pytest.mark.parametrize("grid", [(1, 1), (7, 7), (14, 14), (6, 12), (37, 37), (64, 64)])
def test_position_sheets_have_a_bounded_size(grid: tuple[int, int]) -> None:
    sheet = position_sheet(wave(*grid))
    left, top, right, bottom, _ = margins(980)
    assert max(sheet.size) <= 980 + max(left + right, top + bottom)


def test_position_sheet_marks_each_own_cell_and_shows_the_rest() -> None:
    positions = wave(3, 5)
    picture = np.asarray(position_sheet(positions, side=300)).astype(int)[..., :3]
    zoom = 300 // (5 * 6)
    step_y, step_x = (3 + 1) * zoom, (5 + 1) * zoom  # the gap is one cell
    left, top, *_ = margins(300)
    colours = matplotlib.colormaps["viridis"]
    for i, j, k, m in np.ndindex(3, 5, 3, 5):
        y, x = top + i * step_y + k * zoom, left + j * step_x + m * zoom
        corner, centre = picture[y, x], picture[y + zoom // 2, x + zoom // 2]
        assert (corner.max() < 40) == ((i, j) == (k, m))
        cosine = float(positions.similarity[i, j, k, m])
        expected = np.array(colours((cosine + 1) / 2)[:3]) * 255
        assert np.abs(centre - expected).max() <= 3
    assert MARK > 1


def test_every_patch_of_a_large_grid_is_not_needed() -> None:
    small = position_sheet(wave(37, 37), side=400)
    assert max(small.size) <= 400 + 150
