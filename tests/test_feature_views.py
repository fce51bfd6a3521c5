"""Colours, lengths and likeness of features: definitions, planted artifacts, closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from explainers import HeatMap, wrap_model
from explainers.methods.feature_pca import components
from explainers.methods.token_norm import outlier_threshold
from explainers.trace import Trace
from tests.feature_runs import PHOTO, close, run, traced
from tests.slow_vit import norm, slow_forward
from tests.tiny import VARIANTS, tiny_vit


def slow_features(trace: Trace, block: int, at: str) -> np.ndarray:
    """All tokens (N, width) from the definition; "auto" as the methods settle it."""
    module = trace.model.module
    with torch.no_grad():
        stream = slow_forward(module, trace.pixels[0]).stream
        last = block in (-1, trace.depth - 1)
        has_norm = not isinstance(module.norm, nn.Identity)
        if at == "final" or (at == "auto" and last and has_norm):
            return norm(stream[-1], module.norm).numpy()
        return stream[block % trace.depth + 1].numpy()


# -- feature_pca -----------------------------------------------------------------------------


def slow_pca(features: np.ndarray) -> tuple[np.ndarray, float]:
    """Projections on the covariance's eigenvectors, loading by loading."""
    centred = features - features.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    found = []
    for i in np.argsort(values)[::-1][:3]:
        axis = vectors[:, i]
        largest = max(range(len(axis)), key=lambda d: abs(axis[d]))
        found.append(centred @ (axis if axis[largest] > 0 else -axis))
    return np.stack(found, 1), float(np.sort(values)[::-1][:3].sum() / values.sum())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("block", "at"), [(-1, "auto"), (-1, "output"), (0, "auto"), (1, "output")]
)
def test_pca_equals_the_covariances_eigenvectors(variant: str, block: int, at: str) -> None:
    trace = traced(variant)
    patches = slow_features(trace, block, at)[trace.prefix :]
    wanted, share = slow_pca(patches)
    heat = run("feature_pca", trace, block=block, at=at)
    assert heat.kind == "rgb"
    close(heat.values, wanted.reshape(*trace.grid, 3))
    assert heat.figures["explained_variance_percent"] == pytest.approx(100 * share)
    strengths = (heat.values.reshape(-1, 3) ** 2).sum(0)
    assert (np.diff(strengths) <= 0).all()


def test_components_of_tall_and_wide_and_thin_features() -> None:
    generator = torch.Generator().manual_seed(3)
    for n, width in ((40, 6), (6, 40), (9, 9)):
        features = torch.randn(n, width, generator=generator, dtype=torch.float64)
        places, share = components(features, 1e-12)
        wanted, wanted_share = slow_pca(features.numpy())
        close(places, wanted)
        assert share == pytest.approx(wanted_share)
    line = torch.arange(5.0, dtype=torch.float64)[:, None] * torch.tensor([[1.0, -2.0]])
    places, share = components(line, 1e-9)
    wanted = (2 - np.arange(5)) * 5**0.5  # the larger loading, −2, is made positive
    close(places, np.stack([wanted, np.zeros(5), np.zeros(5)], 1))
    assert share == pytest.approx(1)
    same, share = components(torch.ones(4, 3, dtype=torch.float64), 1e-9)
    assert not same.any()
    assert share == 0


def test_pca_is_drawn_with_the_mean_patch_in_grey() -> None:
    trace = traced()
    heat = run("feature_pca", trace)
    picture = np.asarray(heat.overlay(style="map"), dtype=int)
    row, column = np.unravel_index(np.abs(heat.values).max(2).argmin(), trace.grid)
    left, top, right, bottom = heat.geometry.cell_box(int(row), int(column))
    shown = picture[int((top + bottom) / 2), int((left + right) / 2)]
    extent = np.abs(heat.values).max((0, 1))
    wanted = 127.5 * (1 + heat.values[row, column] / extent)
    assert np.abs(shown - wanted).max() <= 2


# -- token_norm ------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_lengths_are_the_tokens_euclidean_norms(variant: str) -> None:
    trace = traced(variant)
    for block in (-1, 0):
        patches = slow_features(trace, block, "output")[trace.prefix :]
        wanted = [sum(x * x for x in token) ** 0.5 for token in patches]
        close(run("token_norm", trace, block=block).values, np.reshape(wanted, trace.grid))


def keys(heat: HeatMap) -> list[str]:
    """The notes that the method itself made."""
    return [note.key for note in heat.notes if note.key != "untrained_grid"]


def planted(places: tuple[int, ...] = (), variant: str = "plain") -> Trace:
    """A ViT some of whose patch tokens (counted without the prefix) are very long."""
    module = tiny_vit(**VARIANTS[variant])
    with torch.no_grad():
        for place in places:
            module.pos_embed[0, module.num_prefix_tokens + place] *= 100
    return wrap_model(module).trace(PHOTO)


@pytest.mark.parametrize("variant", ["plain", "registers", "distilled", "no_class_token"])
def test_planted_artifacts_are_found_and_masked(variant: str) -> None:
    clean = run("token_norm", traced(variant))
    assert clean.figures["outlier_share_percent"] == 0
    assert not keys(clean)
    trace = planted((5, 6), variant)
    raw = run("token_norm", trace)
    assert raw.figures["outlier_share_percent"] == pytest.approx(100 * 2 / 16)
    found = raw.values.ravel() > raw.figures["outlier_threshold"]
    assert found.nonzero()[0].tolist() == [5, 6]
    assert keys(raw) == ["token_outliers"]
    assert "2 of 16" in raw.notes[0]
    masked = run("token_norm", trace, mask="outliers")
    assert masked.values.sum() == pytest.approx(1)
    kept = np.where(found, 0, raw.values.ravel())
    close(masked.values.ravel(), kept / kept.sum())
    assert masked.notes == raw.notes
    assert masked.figures == raw.figures
    assert run("token_norm", trace, deviations=50.0).figures["outlier_share_percent"] <= 12.5


def test_threshold_closed_forms() -> None:
    norms = torch.tensor([8.0, 9.0, 10.0, 11.0, 12.0], dtype=torch.float64)
    assert outlier_threshold(norms, 6) == pytest.approx(10 + 6 * 1.4826)  # the deviation is 1
    assert outlier_threshold(norms, 1) == pytest.approx(15)  # never below 1.5 medians
    assert outlier_threshold(torch.full((4,), 2.0), 6) == pytest.approx(3)  # all of one length
    assert outlier_threshold(torch.zeros(4), 6) == 0


def test_a_model_whose_tokens_vanish_has_an_empty_map() -> None:
    module = tiny_vit(dtype=torch.float32)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    trace = wrap_model(module).trace(PHOTO)
    for mask in ("none", "outliers"):
        heat = run("token_norm", trace, mask=mask)
        assert not heat.values.any()
        assert heat.flat
    for name in ("feature_pca", "patch_similarity"):
        assert np.isfinite(run(name, trace).values).all()


# -- patch_similarity ------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_similarity_is_the_cosine(variant: str) -> None:
    trace = traced(variant)
    p, (rows, columns) = trace.prefix, trace.grid
    for block, at in ((-1, "auto"), (0, "output")):
        x = slow_features(trace, block, at)
        lengths = np.sqrt((x * x).sum(1))
        wanted = (x @ x.T) / np.outer(lengths, lengths)
        for token in {0, p, trace.tokens - 1}:
            heat = run("patch_similarity", trace, patch=token, block=block, at=at)
            close(heat.values, wanted[token, p:].reshape(trace.grid))
    middle = run("patch_similarity", trace)
    assert middle.values[rows // 2, columns // 2] == pytest.approx(1)
    token = p + rows // 2 * columns + columns // 2
    close(middle.values, run("patch_similarity", trace, patch=token).values)


def test_similarity_is_symmetric_and_says_what_it_compares() -> None:
    trace = traced("registers")
    maps = [run("patch_similarity", trace, patch=3 + i) for i in range(16)]
    whole = np.stack([heat.values.ravel() for heat in maps])
    close(whole, whole.T)
    close(np.diag(whole), np.ones(16))
    assert maps[6].notes[0] == "Compared with the patch in row 2, column 3 of 4×4."
    register = run("patch_similarity", trace, patch=2)
    assert register.notes[0] == "Compared with the token register 2, which is no patch."
