"""Gradient methods and occlusion: against their definitions, closed forms and completeness."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import HeatMap, explain, methods, wrap_model
from explainers.methods.baselines import BASELINES, baseline, baseline_image
from explainers.trace import Trace
from tests.closed_forms import closed
from tests.method_runs import PHOTO, close, run, traced
from tests.slow_vit import slow_forward
from tests.tiny import VARIANTS, tiny_vit

CLASSIFIERS = [name for name in VARIANTS if name != "headless"]


# -- gradients -----------------------------------------------------------------------------


def gradient(module: nn.Module, pixels: Tensor, target: int, against: int | None) -> Tensor:
    pixels = pixels.clone().requires_grad_()
    logits = slow_forward(module, pixels).logits
    y = logits[target] if against is None else logits[target] - logits[against]
    return torch.autograd.grad(y, pixels)[0]


@pytest.mark.parametrize("variant", CLASSIFIERS)
@pytest.mark.parametrize("against", [None, 0])
def test_gradient_methods_equal_their_definitions(variant: str, against: int | None) -> None:
    trace = traced(variant)
    module, pixels = trace.model.module, trace.pixels[0]
    slow = gradient(module, pixels, 3, against)
    close(run("saliency", trace, 3, against=against).values, slow.abs().amax(0))
    product = (slow * pixels).sum(0)
    close(run("input_x_gradient", trace, 3, against=against).values, product)
    patches = run("input_x_gradient", trace, 3, against=against, resolution="patch").values
    (rows, columns), p = trace.grid, 4
    for i in range(rows):
        for j in range(columns):
            cell = product[i * p : (i + 1) * p, j * p : (j + 1) * p].sum()
            assert patches[i, j] == pytest.approx(float(cell), abs=1e-10)


def test_a_second_gradient_method_does_not_run_the_model_again() -> None:
    trace = traced()
    runs = []
    trace.model.module.register_forward_hook(lambda *_: runs.append(1))
    for name in ("attention", "rollout"):
        run(name, trace)
    assert len(runs) == 0
    run("saliency", trace, 1)
    assert len(runs) == 1
    run("input_x_gradient", trace, 1)
    assert len(runs) == 1
    run("input_x_gradient", trace, 2)
    assert len(runs) == 2


def slow_path(trace: Trace, target: int, start: Tensor, steps: int) -> Tensor:
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros_like(start)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        at = start + float(node) * (trace.pixels[0] - start)
        total += float(weight) * gradient(trace.model.module, at, target, None)
    return total * (trace.pixels[0] - start)


@pytest.mark.parametrize("variant", ["plain", "rectangle", "average"])
def test_integrated_gradients_equal_the_path_integral(variant: str) -> None:
    trace = traced(variant)
    for kind in ("black", "blur"):
        start = baseline(trace, kind)
        heat = run("integrated_gradients", trace, 2, baseline=kind, steps=7)
        wanted = slow_path(trace, 2, start, 7).sum(0)
        close(heat.values, wanted, 3e-7 * float(wanted.abs().max()))  # Captum's float32 weights
    exact = run("integrated_gradients", trace, 2, steps=200)
    with torch.no_grad():
        difference = trace.logits[0, 2] - trace.model.logits(baseline(trace, "black")[None])[0, 2]
    assert exact.values.sum() == pytest.approx(float(difference), rel=1e-3, abs=1e-3)
    assert exact.figures["completeness_error_percent"] < 1
    assert exact.figures["score_difference"] == pytest.approx(abs(float(difference)))


def test_smoothgrad_equals_the_mean_over_the_same_noise() -> None:
    trace = traced()
    sigma, seed = 0.2, 7
    spread = float(trace.pixels.max() - trace.pixels.min()) * sigma
    generator = torch.Generator().manual_seed(seed)
    noise = torch.cat([torch.randn((n, 3, 16, 16), generator=generator) for n in (4, 2)])
    total = torch.zeros_like(trace.pixels[0])
    for one in noise:
        total += gradient(trace.model.module, trace.pixels[0] + spread * one.double(), 1, None)
    heat = run("smoothgrad", trace, 1, samples=6, sigma=sigma, seed=seed)
    close(heat.values, (total / 6).abs().amax(0))
    plain = run("smoothgrad", trace, 1, sigma=0.0)
    close(plain.values, run("saliency", trace, 1).values, 1e-12)
    assert not np.allclose(heat.values, run("smoothgrad", trace, 1, sigma=sigma, seed=8).values)


def test_no_method_reads_or_moves_a_global_generator() -> None:
    trace = traced()
    torch.manual_seed(3)
    np.random.seed(3)
    states = torch.get_rng_state(), np.random.get_state()[1]
    first = {name: run(name, trace).values for name in methods()}
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])
    torch.manual_seed(4)
    for name, values in first.items():
        assert run(name, trace).values.tobytes() == values.tobytes(), name


# -- occlusion -----------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["plain", "rectangle", "distilled"])
@pytest.mark.parametrize("score", ["probability", "logit"])
def test_occlusion_equals_hiding_patch_after_patch(variant: str, score: str) -> None:
    trace = traced(variant)
    module, pixels = trace.model.module, trace.pixels[0]
    fill = baseline(trace, "mean")

    def value(at: Tensor) -> float:
        with torch.no_grad():
            logits = slow_forward(module, at).logits
        answer = logits.softmax(-1) if score == "probability" else logits
        return float(answer[1] - answer[4])

    whole = value(pixels)
    for window in (1, 2):
        wanted = np.zeros(trace.grid)
        for i in range(0, trace.grid[0], window):
            for j in range(0, trace.grid[1], window):
                box = (
                    slice(None),
                    slice(4 * i, 4 * (i + window)),
                    slice(4 * j, 4 * (j + window)),
                )
                hidden = pixels.clone()
                hidden[box] = fill[box]
                wanted[i : i + window, j : j + window] = whole - value(hidden)
        heat = run("occlusion", trace, 1, against=4, score=score, window=window)
        close(heat.values, wanted)


# -- closed forms on models that are not ViTs ------------------------------------------------


def test_linear_model_closed_forms() -> None:
    trace = closed()
    w, x = trace.model.module.w.detach()[1], trace.pixels[0]
    close(run("saliency", trace, 1).values, w.abs().amax(0))
    close(run("input_x_gradient", trace, 1).values, (w * x).sum(0))
    for kind in BASELINES:
        start = baseline(trace, kind)
        heat = run("integrated_gradients", trace, 1, steps=1, baseline=kind)
        close(heat.values, (w * (x - start)).sum(0))
        assert heat.figures["completeness_error_percent"] < 1e-6
        assert not heat.notes
    hidden = run("occlusion", trace, 1, fill="grey", score="logit").values
    close(hidden, (w * x).sum(0).reshape(2, 4, 3, 4).sum((1, 3)))  # w·x of each patch


def test_squares_are_completed_from_zero() -> None:
    trace = closed(squared=True)
    heat = run("integrated_gradients", trace, 0, baseline="grey", steps=40)
    assert heat.values.sum() == pytest.approx(float(trace.pixels.pow(2).sum()), rel=1e-6)


def test_completeness_above_five_per_cent_is_said() -> None:
    trace = closed(squared=True)
    heat = explain("integrated_gradients", trace, 0, baseline="black", steps=1)
    assert isinstance(heat, HeatMap)
    error = heat.figures["completeness_error_percent"]
    assert (error > 5) == any(note.key == "completeness" for note in heat.notes)


def test_baselines_are_what_they_are_called() -> None:
    trace = wrap_model(tiny_vit()).trace(PHOTO)
    assert (baseline_image(trace, "black") == 0).all()
    assert (baseline_image(trace, "white") == 255).all()
    mean = np.asarray(trace.model.preprocessing.mean) * 255
    np.testing.assert_allclose(baseline_image(trace, "grey")[0, 0], mean, atol=0.51)
    own = baseline_image(trace, "mean")
    assert (own == own[0, 0]).all()
    shown = trace.model.preprocessing.undo(trace.pixels[0])
    np.testing.assert_allclose(own[0, 0], shown.mean((0, 1)), atol=1.5)
    assert 0 < baseline_image(trace, "blur").std() < shown.std()
