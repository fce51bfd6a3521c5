"""Patch filters: the weights themselves and their components, against slow twins."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explainers.render.charts import filter_sheet
from explainers.sentence import Sentence
from explainers.views.filters import principal, raw
from tests.learned_views import wrapped
from tests.tiny import PATCH, WIDTH


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
