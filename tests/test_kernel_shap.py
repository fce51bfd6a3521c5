"""Kernel SHAP against exact Shapley values, Captum, closed forms and axioms."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from captum.attr import FeatureAblation, ShapleyValues
from torch import Tensor

from explainers import ModelError
from explainers.methods.baselines import BASELINES, baseline
from explainers.methods.kernel_shap import _drawn_pairs, shapley
from explainers.trace import Trace
from tests.closed_forms import closed
from tests.perturbation import CLASSIFIERS, close, hide, run, slow_score, traced


def exact_shapley(trace: Trace, players: list[set[int]], fill: str, score: str) -> list[float]:
    """Σ over sets without the player of |S|!(n−|S|−1)!/n! (f(S ∪ player) − f(S))."""
    n, everyone = len(players), set(range(len(players)))
    value: dict[frozenset[int], float] = {}
    for size in range(n + 1):
        for chosen in combinations(range(n), size):
            hidden = set().union(*(players[i] for i in everyone - set(chosen)))
            value[frozenset(chosen)] = slow_score(trace, hide(trace, hidden, fill), score)
    found = []
    for player in range(n):
        total = 0.0
        for present, worth in value.items():
            if player not in present:
                k = len(present)
                share = factorial(k) * factorial(n - k - 1) / factorial(n)
                total += share * (value[present | {player}] - worth)
        found.append(total)
    return found


@pytest.mark.parametrize("variant", ["plain", "distilled", "no_class_token"])
@pytest.mark.parametrize("score", ["probability", "logit"])
def test_shap_of_all_sets_is_the_exact_shapley_value(variant: str, score: str) -> None:
    trace = traced(variant, size=(8, 12))  # 2×3 patches
    heat = run("kernel_shap", trace, score=score, fill="black", samples=62)
    players = [{i} for i in range(6)]
    close(heat.values.ravel(), exact_shapley(trace, players, "black", score))
    assert heat.figures["standard_error"] == 0
    assert heat.notes[0].key == "shapley_exact"
    assert run("kernel_shap", trace, samples=61).notes[0].key == "sampling_error"


def test_shap_of_nine_patches_and_of_squares() -> None:
    trace = traced(size=(12, 12))
    heat = run("kernel_shap", trace)
    close(heat.values.ravel(), exact_shapley(trace, [{i} for i in range(9)], "mean", "probability"))
    squares_heat = run("kernel_shap", trace, window=2)
    cells = [{0, 1, 3, 4}, {2, 5}, {6, 7}, {8}]
    values = exact_shapley(trace, cells, "mean", "probability")
    for cell, value in zip(cells, values, strict=True):
        close(squares_heat.values.ravel()[list(cell)], value / len(cell))
    whole = run("kernel_shap", trace, window=3)  # one player takes it all
    close(whole.values, np.full((3, 3), whole.figures["score_difference"] / 9))
    assert whole.values.sum() == pytest.approx(heat.values.sum())


@pytest.mark.parametrize("against", [None, 3])
def test_captum_agrees_where_it_draws_nothing(against: int | None) -> None:
    """Its ablation, and its Shapley values (in float32) from all orders of four patches."""
    trace = traced(size=(8, 8))
    cells = torch.arange(4).reshape(2, 2).repeat_interleave(4, 0).repeat_interleave(4, 1)

    def probability(pixels: Tensor) -> Tensor:
        answer = trace.model.logits(pixels).softmax(-1)
        return answer[:, 1] if against is None else answer[:, 1] - answer[:, against]

    for name, peer in (("occlusion", FeatureAblation), ("kernel_shap", ShapleyValues)):
        with torch.no_grad():
            values = peer(probability).attribute(
                trace.pixels,
                baselines=baseline(trace, "blur")[None],
                feature_mask=cells[None, None],
                perturbations_per_eval=1,
            )
        heat = run(name, trace, fill="blur", against=against)
        close(heat.values, values[0, 0, ::4, ::4], 1e-8)


@pytest.mark.parametrize("variant", CLASSIFIERS)
@pytest.mark.parametrize("window", [0, 1, 2])
def test_shap_is_complete(variant: str, window: int) -> None:
    trace = traced(variant)
    patches = trace.grid[0] * trace.grid[1]
    heat = run("kernel_shap", trace, samples=70, window=window, against=3, fill="blur")
    everything = hide(trace, set(range(patches)), "blur")
    difference = slow_score(trace, trace.pixels[0], against=3)
    difference -= slow_score(trace, everything, against=3)
    assert heat.values.sum() == pytest.approx(difference, abs=1e-12)
    assert heat.figures["score_difference"] == pytest.approx(abs(difference))


@pytest.mark.parametrize("fill", BASELINES)
def test_shap_lime_and_occlusion_of_a_linear_model_are_its_terms(fill: str) -> None:
    trace = closed()
    w, x = trace.model.module.w.detach()[1], trace.pixels[0]
    wanted = (w * (x - baseline(trace, fill))).sum(0).reshape(2, 4, 3, 4).sum((1, 3))
    settings = {"fill": fill, "score": "logit"}
    for name, more in (
        ("occlusion", {}),
        ("kernel_shap", {}),  # all sets
        ("kernel_shap", {"samples": 60}),  # drawn sets
        ("lime", {"ridge": 0.0, "samples": 30}),
    ):
        close(run(name, trace, **settings, **more).values, wanted)
    drawn = run("kernel_shap", trace, samples=60, **settings)
    assert drawn.figures["standard_error"] < 1e-10
    assert run("lime", trace, ridge=0.0, **settings).figures["fit"] == pytest.approx(1)


def test_shap_of_drawn_sets_tends_to_the_exact_values_with_the_stated_error() -> None:
    """A game of 7 players with pairs that work together, many seeds."""
    generator = torch.Generator().manual_seed(1)
    alone = torch.randn(7, generator=generator).double()
    pairs = torch.randn(7, 7, generator=generator).double()

    def game(sets: Tensor) -> Tensor:
        z = sets.double()
        return torch.sigmoid(z @ alone + ((z @ pairs) * z).sum(1) - 1)

    ends = torch.stack([torch.ones(7), torch.zeros(7)]).bool()
    total = game(ends)[0] - game(ends)[1]
    exact = torch.zeros(7, dtype=torch.float64)
    for player in range(7):
        others = [p for p in range(7) if p != player]
        for size in range(7):
            for chosen in combinations(others, size):
                z = torch.zeros(1, 7, dtype=torch.bool)
                z[0, list(chosen)] = True
                with_player = z.clone()
                with_player[0, player] = True
                share = factorial(size) * factorial(6 - size) / factorial(7)
                exact[player] += share * (game(with_player) - game(z))[0]

    found, stated = [], []
    for seed in range(200):
        sets, weights = _drawn_pairs(7, 60, seed)
        values, errors = shapley(sets, weights, (game(sets) - game(~sets)) / 2, total)
        found.append(values)
        stated.append(errors)
    values, errors = torch.stack(found), torch.stack(stated)
    spread = values.std(0)
    close(values.mean(0), exact, float(5 * spread.max() / 200**0.5))
    assert float(errors.square().mean().sqrt()) == pytest.approx(
        float(spread.square().mean().sqrt()), rel=0.15
    )


def test_sets_are_drawn_with_the_shapley_kernel() -> None:
    sets, weights = _drawn_pairs(6, 40_000, 0)
    sizes = sets.sum(1).bincount(minlength=6).double()[1:] / 40_000
    kernel = torch.tensor([1 / (k * (6 - k)) for k in range(1, 6)], dtype=torch.float64)
    close(sizes, kernel / kernel.sum(), 0.01)
    close(sets.double().mean(0), np.full(6, 0.5), 0.01)
    assert (weights == 1).all()


def test_a_window_too_small_for_the_samples_is_refused() -> None:
    for name in ("kernel_shap", "lime"):
        with pytest.raises(ModelError, match="63 samples are too few for the 16 parts"):
            run(name, traced(), samples=63, window=1)
        heat = run(name, traced(), samples=63)
        assert len(np.unique(heat.values)) == 4  # squares of 2 × 2
