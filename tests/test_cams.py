"""The CAM family on tokens: each method against its slow twin."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import wrap_model
from explainers.methods.eigen_cam import first_axis
from explainers.trace import Trace
from tests.cams import (
    CLASSIFIERS,
    LAST,
    PHOTO,
    WEIGHED,
    auto,
    close,
    run,
    said,
    slow_features,
    traced,
)
from tests.slow_vit import slow_forward
from tests.tiny import VARIANTS, WIDTH, tiny_vit


def slow_gradient(trace: Trace, block: int, at: str, target: int, against: int | None) -> Tensor:
    """∂y/∂A of the patches (h·w, width).

    The gradient of norm1's output is that of its bias, were there one bias a token.
    """
    module = copy.deepcopy(trace.model.module)
    bias = module.blocks[block].norm1.bias
    bias = nn.Parameter(bias.detach().expand(trace.tokens, -1).clone())
    module.blocks[block].norm1.bias = bias
    slow = slow_forward(module, trace.pixels[0])
    y = slow.logits[target] - (0 if against is None else slow.logits[against])
    place = bias if at == "norm1" else slow.stream[block + 1]
    return torch.autograd.grad(y, place)[0][trace.prefix :]


def slow_cam(name: str, features: list[list[float]], gradients: list[list[float]]) -> list[float]:
    """One number a patch, written out in loops."""
    patches, channels = range(len(features)), range(len(features[0]))
    weights = []
    for d in channels:
        g = [gradients[i][d] for i in patches]
        a = [features[i][d] for i in patches]
        if name == "grad_cam":
            weights.append(sum(g) / len(g))
        elif name == "grad_cam_plus_plus":
            alpha = [x**2 / (2 * x**2 + x**3 * sum(a)) if x else 0 for x in g]
            weights.append(sum(al * max(x, 0) for al, x in zip(alpha, g, strict=True)))
        elif name == "xgrad_cam":
            weights.append(sum(x * y for x, y in zip(g, a, strict=True)) / sum(a))
    values = []
    for i in patches:
        if name == "hires_cam":
            terms = [gradients[i][d] * features[i][d] for d in channels]
        elif name == "layer_cam":
            terms = [max(gradients[i][d], 0) * features[i][d] for d in channels]
        else:
            terms = [weights[d] * features[i][d] for d in channels]
        values.append(max(math.fsum(terms), 0))
    return values


@pytest.mark.parametrize("variant", CLASSIFIERS)
@pytest.mark.parametrize("against", [None, 0])
@pytest.mark.parametrize("name", WEIGHED)
def test_weighed_cams_equal_their_definitions(variant: str, against: int | None, name: str) -> None:
    trace = traced(variant)
    for block, at in ((LAST, "auto"), (LAST, "norm1"), (0, "auto"), (1, "norm1")):
        place = auto(variant, block) if at == "auto" else at
        features = slow_features(trace, block, place)
        gradients = slow_gradient(trace, block, place, 3, against)
        wanted = slow_cam(name, features.tolist(), gradients.tolist())
        heat = run(name, trace, 3, against=against, block=block, at=at)
        size = max(1.0, max(wanted))  # two of the methods divide by numbers near 0
        close(heat.values / size, np.reshape(wanted, trace.grid) / size)


@pytest.mark.parametrize("variant", VARIANTS)
def test_eigen_cam_is_the_first_principal_component(variant: str) -> None:
    trace = traced(variant)
    for block, at in ((LAST, "auto"), (LAST, "output"), (0, "norm1"), (1, "auto")):
        features = slow_features(trace, block, auto(variant, block) if at == "auto" else at)
        centred = features - features.mean(0)
        axis = torch.linalg.svd(centred).Vh[0]
        axis = axis * axis[axis.abs().argmax()].sign()
        heat = run("eigen_cam", trace, block=block, at=at)
        close(heat.values, (centred @ axis).reshape(trace.grid), 1e-9)
        assert heat.values.sum() == pytest.approx(0, abs=1e-9)
        assert heat.signed
        assert heat.target is None


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (5, 5)])
def test_first_axis_varies_most_and_has_a_sign(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=shape)
    rows -= rows.mean(0)
    axis = first_axis(rows)
    assert np.linalg.norm(axis) == pytest.approx(1)
    assert axis[np.abs(axis).argmax()] > 0
    assert np.linalg.norm(rows @ axis) == pytest.approx(np.linalg.svd(rows)[1][0])
    close(first_axis(-rows), axis)
    assert np.isfinite(first_axis(np.zeros(shape))).all()


def slow_mask(cells: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Cells (h, w) spread bilinearly over pixels, centre to centre, and scaled to 0..1."""
    spread = np.zeros(size)
    for y in range(size[0]):
        for x in range(size[1]):
            r, c = (
                min(max((p + 0.5) * n / s - 0.5, 0), n - 1)
                for p, n, s in zip((y, x), cells.shape, size, strict=True)
            )
            for i in range(cells.shape[0]):
                for j in range(cells.shape[1]):
                    share = max(0, 1 - abs(r - i)) * max(0, 1 - abs(c - j))
                    spread[y, x] += share * cells[i, j]
    spread -= spread.min()
    return spread / spread.max()


@pytest.mark.parametrize("variant", ["plain", "rectangle", "average_registers", "distilled"])
def test_score_cam_equals_masking_channel_after_channel(variant: str) -> None:
    trace = traced(variant)
    for channels, block, at, against in ((64, 0, "auto", None), (5, LAST, "norm1", 2)):
        place = auto(variant, block) if at == "auto" else at
        features = slow_features(trace, block, place).numpy()
        strongest = sorted(range(WIDTH), key=lambda d: -np.var(features[:, d]))[:channels]
        scores = []
        for d in strongest:
            mask = slow_mask(features[:, d].reshape(trace.grid), trace.pixels.shape[-2:])
            with torch.no_grad():
                logits = slow_forward(
                    trace.model.module, trace.pixels[0] * torch.from_numpy(mask)
                ).logits
            scores.append(float(logits[3] - (0 if against is None else logits[against])))
        weights = np.exp(scores) / np.exp(scores).sum()
        raw = features[:, strongest] @ weights
        settings = {"channels": channels, "block": block, "at": at}
        heat = run("score_cam", trace, 3, against=against, **settings)
        close(heat.values, np.maximum(raw, 0).reshape(trace.grid))
        assert said(heat) == ["cam_all_clipped"] * bool(raw.max() <= 0)


def test_a_constant_channel_hides_everything_and_the_rest_is_finite() -> None:
    module = tiny_vit()
    with torch.no_grad():
        module.blocks[0].norm1.weight[5] = 0  # this channel is its bias everywhere
    trace = wrap_model(module).trace(PHOTO)
    assert np.isfinite(run("score_cam", trace, block=0, at="norm1").values).all()
