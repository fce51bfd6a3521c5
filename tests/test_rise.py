"""RISE against masking one by one, its closed form and its standard error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from explainers.methods.baselines import baseline
from explainers.methods.rise import Masks
from explainers.trace import Trace
from tests.closed_forms import closed
from tests.perturbation import close, run, slow_score, traced


def slow_masks(
    count: int, cells: int, share: float, size: tuple[int, int], seed: int
) -> np.ndarray:
    """Bilinear masks pixel by pixel, from the same draws."""
    generator = torch.Generator().manual_seed(seed)
    grids = (torch.rand(count, 1, cells, cells, generator=generator) < share)[:, 0].numpy()
    cell = [-(-side // cells) for side in size]
    shifts = [torch.randint(side, (count,), generator=generator).numpy() for side in cell]
    masks = np.zeros((count, *size))

    def between(place: int, side: int) -> tuple[int, int, float]:
        """The two cells a pixel of the spread grid lies between, and how far along."""
        at = min(max((place + 0.5) * cells / ((cells + 1) * side) - 0.5, 0), cells - 1)
        return int(at), min(int(at) + 1, cells - 1), at - int(at)

    for i in range(count):
        for y in range(size[0]):
            for x in range(size[1]):
                a, b, v = between(y + shifts[0][i], cell[0])
                c, d, u = between(x + shifts[1][i], cell[1])
                top = (1 - u) * grids[i, a, c] + u * grids[i, a, d]
                bottom = (1 - u) * grids[i, b, c] + u * grids[i, b, d]
                masks[i, y, x] = (1 - v) * top + v * bottom
    return masks


@pytest.mark.parametrize("variant", ["plain", "rectangle", "average_registers"])
@pytest.mark.parametrize(("score", "fill"), [("probability", "mean"), ("logit", "blur")])
def test_rise_equals_masking_one_by_one(variant: str, score: str, fill: str) -> None:
    trace = traced(variant)
    photo, nothing = trace.pixels[0], baseline(trace, fill)
    size = tuple(photo.shape[1:])
    masks = slow_masks(20, 3, 0.4, size, 5)  # type: ignore[arg-type]
    assert masks.min() >= 0
    assert masks.max() <= 1
    scores = []
    for mask in torch.from_numpy(masks):
        scores.append(slow_score(trace, mask * photo + (1 - mask) * nothing, score, against=2))
    scores_array = np.array(scores)
    settings = {"masks": 20, "cells": 3, "share": 0.4, "seed": 5, "score": score, "fill": fill}
    paper = run("rise", trace, against=2, level="zero", **settings)
    close(paper.values, np.tensordot(scores_array, masks, 1) / 20 / 0.4)
    centred = run("rise", trace, against=2, **settings)
    above = (scores_array - scores_array.mean())[:, None, None]
    close(centred.values, (above * masks / 0.4).mean(0))
    terms = above * (masks - 0.4) / 0.4
    assert centred.figures["average_score"] == pytest.approx(scores_array.mean())
    error = np.sqrt((terms.var(0, ddof=1) / 20).mean())
    assert centred.figures["standard_error"] == pytest.approx(error)
    assert centred.notes[0].key == "sampling_error"
    assert f"{error:.2g}" in centred.notes[0]


def expected_rise(trace: Trace, cells: int, share: float, fill: str) -> np.ndarray:
    """E[(f − E f) M(λ)]/share of a linear model: Σ_x a(x) Cov(M(x), M(λ))/share."""
    w, x = trace.model.module.w.detach()[1], trace.pixels[0]
    a = (w * (x - baseline(trace, fill))).sum(0)  # (H, W)
    height, width = a.shape
    tall, wide = -(-height // cells), -(-width // cells)
    basis = torch.eye(cells * cells, dtype=torch.float64).reshape(-1, 1, cells, cells)
    spread = F.interpolate(
        basis, [(cells + 1) * tall, (cells + 1) * wide], mode="bilinear", align_corners=False
    )[:, 0]
    total = torch.zeros_like(a)
    for top in range(tall):
        for left in range(wide):
            cell = spread[:, top : top + height, left : left + width]  # each cell's part in a mask
            total += torch.einsum("cyx,c->yx", cell, torch.einsum("cyx,yx->c", cell, a))
    return (total / (tall * wide) * (1 - share)).numpy()


def test_rise_of_a_linear_model_is_the_closed_form_within_its_error() -> None:
    trace = closed()
    wanted = expected_rise(trace, 3, 0.3, "grey")
    settings = {"cells": 3, "share": 0.3, "fill": "grey", "score": "logit"}
    heat = run("rise", trace, masks=10_000, **settings)
    error = heat.figures["standard_error"]
    assert error < 0.05 * np.abs(wanted).max()
    assert np.abs(heat.values - wanted).max() < 5 * error
    assert np.sqrt(np.square(heat.values - wanted).mean()) < 2 * error
    paper = run("rise", trace, masks=10_000, level="zero", **settings)
    assert np.abs(paper.values - paper.figures["average_score"] - wanted).max() < (
        5 * paper.figures["standard_error"]
    )


@pytest.mark.parametrize("level", ["average", "zero"])
def test_rises_standard_error_is_the_spread_over_seeds(level: str) -> None:
    trace = closed()
    settings = {"masks": 60, "cells": 3, "score": "logit", "level": level}
    heats = [run("rise", trace, seed=seed, **settings) for seed in range(80)]
    spread = np.sqrt(np.var([heat.values for heat in heats], axis=0, ddof=1).mean())
    stated = np.mean([heat.figures["standard_error"] for heat in heats])
    assert stated == pytest.approx(spread, rel=0.1)


def test_masks_are_the_same_whenever_drawn() -> None:
    masks = Masks(9, 4, 0.5, (10, 14), 1)
    assert torch.equal(masks.drawn(torch.tensor([2, 5])), masks.drawn(masks.indices)[[2, 5]])
    close(masks.drawn(masks.indices), slow_masks(9, 4, 0.5, (10, 14), 1), 1e-12)
    many = Masks(4000, 4, 0.3, (10, 14), 2)
    close(many.drawn(many.indices).mean(0), np.full((10, 14), 0.3), 0.04)
