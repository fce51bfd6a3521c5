"""ViT-CX and its clusters against their definitions, and where it is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers import ModelError, wrap_model
from explainers.methods.clusters import complete_linkage
from explainers.trace import Trace
from tests import slow_vit
from tests.perturbation import CLASSIFIERS, PHOTO, close, keys, run, slow_score, traced
from tests.tiny import tiny_encoder


def slow_linkage(distances: np.ndarray, threshold: float, most: int) -> list[set[int]]:
    clusters = [{i} for i in range(len(distances))]
    while len(clusters) > 1:
        pairs = [
            (max(distances[i, j] for i in a for j in b), m, n)
            for m, a in enumerate(clusters)
            for n, b in enumerate(clusters)
            if m < n
        ]
        far, m, n = min(pairs)
        if far >= threshold and len(clusters) <= most:
            break
        clusters[m] |= clusters.pop(n)
    return clusters


@pytest.mark.parametrize(
    ("threshold", "most"), [(0.3, 99), (0.6, 99), (0.0, 5), (2.0, 99), (0.2, 3)]
)
@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_those_of_the_definition(threshold: float, most: int, seed: int) -> None:
    points = np.random.default_rng(seed).random((24, 3))
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    before = distances.copy()
    labels, found = complete_linkage(distances, threshold, most)
    wanted = slow_linkage(distances, threshold, most)
    assert {frozenset(np.flatnonzero(labels == i)) for i in range(labels.max() + 1)} == {
        frozenset(cluster) for cluster in wanted
    }
    assert found == len(slow_linkage(distances, threshold, 99))
    assert np.array_equal(distances, before)


def slow_vit_cx(
    trace: Trace, distance: float, most: int, noise: float, score: str, seed: int
) -> np.ndarray:
    """Whole masks for every channel, clusters by the definition, one mask at a time."""
    module, photo = trace.model.module, trace.pixels[0]
    with torch.no_grad():
        stream = slow_vit.slow_forward(module, photo).stream[-2]
        read = slow_vit.norm(stream, module.blocks[-1].norm1)[trace.prefix :]

    def scaled(mask: Tensor) -> Tensor:
        return (mask - mask.min()) / (mask.max() - mask.min())

    def spread(grid: Tensor) -> Tensor:
        size = tuple(photo.shape[1:])
        return F.interpolate(grid[None, None], size, mode="bilinear", align_corners=False)[0, 0]

    masks = [scaled(spread(channel.reshape(trace.grid))) for channel in read.T]
    flat = np.stack([mask.flatten().numpy() for mask in masks])
    lengths = np.linalg.norm(flat, axis=1)
    clusters = slow_linkage(1 - flat @ flat.T / lengths / lengths[:, None], distance, most)
    joined = [scaled(sum(masks[i] for i in sorted(c))) for c in sorted(clusters, key=min)]
    generator = torch.Generator().manual_seed(seed)
    draws = [
        noise * torch.randn((len(joined[i : i + 4]), *photo.shape), generator=generator)
        for i in range(0, len(joined), 4)
    ]
    whole = slow_score(trace, photo, score)
    total, coverage = torch.zeros(photo.shape[1:]), torch.zeros(photo.shape[1:])
    for mask, drawn in zip(joined, torch.cat(draws).double(), strict=True):
        hidden = slow_score(trace, photo * mask + drawn * (1 - mask), score)
        noisy = slow_score(trace, photo + drawn * (1 - mask), score)
        total = total + (hidden - noisy + whole) * mask
        coverage = coverage + mask
    return (total / coverage).numpy()


@pytest.mark.parametrize("variant", CLASSIFIERS)
def test_vit_cx_equals_its_definition(variant: str) -> None:
    trace = traced(variant)
    for settings in (
        {"distance": 0.1, "masks": 64, "noise": 0.1, "score": "probability", "seed": 0},
        {"distance": 0.05, "masks": 5, "noise": 0.5, "score": "logit", "seed": 3},
    ):
        heat = run("vit_cx", trace, level="zero", **settings)
        wanted = slow_vit_cx(
            trace,
            settings["distance"],
            settings["masks"],
            settings["noise"],
            settings["score"],
            settings["seed"],
        )
        close(heat.values, wanted)
        assert heat.figures["masks"] <= settings["masks"]
        assert ("vit_cx_joined" in keys(heat)) == (settings["masks"] == 5)
        whole = slow_score(trace, trace.pixels[0], settings["score"])
        assert heat.figures["photo_score"] == pytest.approx(whole)
        close(run("vit_cx", trace, **settings).values + whole, wanted)


def test_vit_cx_does_without_features_that_do_not_vary() -> None:
    trace = traced()
    module = trace.model.module
    with torch.no_grad():
        module.blocks[-1].norm1.weight[:7] = 0  # the same on every patch
    some = wrap_model(module).trace(PHOTO)
    assert np.isfinite(run("vit_cx", some).values).all()
    with torch.no_grad():
        module.blocks[-1].norm1.weight.zero_()
    none = run("vit_cx", wrap_model(module).trace(PHOTO))
    assert not none.values.any()
    assert none.figures["masks"] == 0


def test_vit_cx_is_refused_where_no_features_are_read() -> None:
    vit = wrap_model(tiny_encoder(norm_first=False), size=(16, 16))
    support = vit.supports("vit_cx")
    assert not support
    with pytest.raises(ModelError) as caught:
        run("vit_cx", vit.trace(PHOTO))
    assert str(caught.value) == support.reason
    assert np.isfinite(
        run("vit_cx", wrap_model(tiny_encoder(), size=(16, 16)).trace(PHOTO)).values
    ).all()
