"""SmoothGrad², VarGrad and Gradient SHAP: definitions, Captum, closed forms and axioms."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from captum.attr import NoiseTunnel, Saliency
from captum.attr._core.gradient_shap import InputBaselineXGradient
from torch import Tensor

from explainers import HeatMap, explain, load_photo, methods, wrap_model
from explainers.methods.baselines import baseline
from explainers.trace import Trace
from tests.closed_forms import closed
from tests.slow_vit import slow_forward
from tests.tiny import LABELS, VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
CLASSIFIERS = [name for name in VARIANTS if name != "headless"]
SIGMA, SEED = 0.2, 7


def traced(variant: str = "plain") -> Trace:
    return wrap_model(tiny_vit(**VARIANTS[variant]), labels=LABELS).trace(PHOTO)


def run(name: str, trace: Trace, target: int | None = None, **more: object) -> HeatMap:
    heat = explain(name, trace, target, **more)  # type: ignore[arg-type]
    assert isinstance(heat, HeatMap)
    return heat


def close(values: np.ndarray, wanted: Tensor | np.ndarray, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(values, np.asarray(wanted), rtol=0, atol=tolerance)


def slow_gradient(trace: Trace, at: Tensor, target: int, against: int | None = None) -> Tensor:
    at = at.clone().requires_grad_()
    logits = slow_forward(trace.model.module, at).logits
    y = logits[target] if against is None else logits[target] - logits[against]
    return torch.autograd.grad(y, at)[0]


def spread(trace: Trace) -> float:
    return float(trace.pixels.max() - trace.pixels.min()) * SIGMA


def batches(samples: int) -> list[int]:
    return [min(4, samples - first) for first in range(0, samples, 4)]


# -- SmoothGrad² and VarGrad -----------------------------------------------------------------


def noises(trace: Trace, samples: int) -> Tensor:
    generator = torch.Generator().manual_seed(SEED)
    size = trace.pixels.shape[1:]
    return torch.cat([torch.randn((n, *size), generator=generator) for n in batches(samples)])


@pytest.mark.parametrize("variant", CLASSIFIERS)
def test_each_kind_is_its_statistic_of_the_same_noisy_gradients(variant: str) -> None:
    trace = traced(variant)
    noise = spread(trace) * noises(trace, 6).double()
    slow = torch.stack([slow_gradient(trace, trace.pixels[0] + one, 1, 3) for one in noise])
    mean = sum(slow) / 6
    for kind, wanted in (
        ("mean", mean.abs()),
        ("squared", sum(g**2 for g in slow) / 6),
        ("variance", sum((g - mean) ** 2 for g in slow) / 6),
    ):
        for resolution in ("pixel", "patch"):
            heat = run(
                "smoothgrad", trace, 1, against=3, kind=kind, samples=6, sigma=SIGMA, seed=SEED,
                resolution=resolution,
            )  # fmt: skip
            pixels = wanted.amax(0)
            rows, columns = trace.grid
            patches = pixels.reshape(rows, 4, columns, 4).sum((1, 3))
            close(heat.values, pixels if resolution == "pixel" else patches)


@pytest.mark.parametrize(
    ("kind", "theirs"),
    [("mean", "smoothgrad"), ("squared", "smoothgrad_sq"), ("variance", "vargrad")],
)
def test_captum_agrees_on_the_same_noise(
    kind: str, theirs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = traced()
    noise = spread(trace) * noises(trace, 6).double()
    monkeypatch.setattr(torch, "normal", lambda mean, std: noise)
    tunnel = NoiseTunnel(Saliency(lambda pixels: trace.model.logits(pixels)[:, 1]))
    found = tunnel.attribute(
        trace.pixels.clone(), nt_type=theirs, nt_samples=6, stdevs=1.0, abs=False
    )
    monkeypatch.undo()
    heat = run("smoothgrad", trace, 1, kind=kind, samples=6, sigma=SIGMA, seed=SEED)
    close(heat.values, found[0].abs().amax(0).detach())


def test_without_noise_the_square_is_saliencys_and_the_variance_is_nothing() -> None:
    trace = traced()
    plain = run("saliency", trace, 1).values
    close(run("smoothgrad", trace, 1, kind="squared", sigma=0.0).values, plain**2)
    still = run("smoothgrad", trace, 1, kind="variance", sigma=0.0)
    close(still.values, np.zeros((16, 16)), 1e-20)
    one = run("smoothgrad", trace, 1, kind="variance", samples=1)
    assert not one.values.any()
    assert one.flat


def test_variance_is_never_negative_where_gradients_are_large_and_alike() -> None:
    """In float32, mean g² − (mean g)² of a steep model would cancel to noise of either sign."""
    module = tiny_vit(dtype=torch.float32)
    with torch.no_grad():
        module.head.weight *= 1e4
    trace = wrap_model(module).trace(PHOTO)
    exact = wrap_model(tiny_vit()).trace(PHOTO)
    settings = {"kind": "variance", "samples": 6, "sigma": 1e-3}
    heat = run("smoothgrad", trace, 1, **settings)
    wanted = run("smoothgrad", exact, 1, **settings).values * 1e8
    assert heat.values.min() >= 0
    np.testing.assert_allclose(heat.values, wanted, rtol=0.05, atol=1e-3 * wanted.max())


# -- Gradient SHAP ---------------------------------------------------------------------------


def drawn(trace: Trace, kind: str, samples: int) -> Iterator[tuple[Tensor, float]]:
    """The baselines and the points on the way, as a seed means them."""
    generator = torch.Generator().manual_seed(SEED)
    k = 0
    for count in batches(samples):
        noise = torch.randn((count, *trace.pixels.shape[1:]), generator=generator)
        within = torch.rand((count, 1, 1, 1), generator=generator)
        for i in range(count):
            start = baseline(trace, kind) + spread(trace) * noise[i].to(trace.pixels)
            yield start, float((k + within[i]) / samples)
            k += 1


@pytest.mark.parametrize("variant", CLASSIFIERS)
@pytest.mark.parametrize("kind", ["black", "mean"])
def test_gradient_shap_is_the_mean_over_its_draws(variant: str, kind: str) -> None:
    trace = traced(variant)
    x, n = trace.pixels[0], 6
    terms, nothing = [], 0.0
    for start, alpha in drawn(trace, kind, n):
        slope = slow_gradient(trace, start + alpha * (x - start), 2, 4)
        terms.append(((x - start) * slope).sum(0))
        logits = slow_forward(trace.model.module, start).logits
        nothing += float((logits[2] - logits[4]).detach()) / n
    mean = sum(terms) / n
    settings = {"baseline": kind, "samples": n, "sigma": SIGMA, "seed": SEED}
    heat = run("gradient_shap", trace, 2, against=4, **settings)
    close(heat.values, mean.detach())
    logits = slow_forward(trace.model.module, x).logits
    difference = float((logits[2] - logits[4]).detach()) - nothing
    error = 100 * abs(float(mean.sum()) - difference) / abs(difference)
    assert heat.figures["completeness_error_percent"] == pytest.approx(error, rel=1e-6)
    assert heat.figures["score_difference"] == pytest.approx(abs(difference), rel=1e-9)
    assert (error > 5) == any(note.key == "completeness_samples" for note in heat.notes)
    rows, columns = trace.grid
    cells = [t.detach().reshape(rows, 4, columns, 4).sum((1, 3)) for t in terms]
    patches = run("gradient_shap", trace, 2, against=4, resolution="patch", **settings)
    close(patches.values, sum(cells) / n)
    for found, parts in ((heat, terms), (patches, cells)):
        average = sum(parts) / n
        variance = sum((part - average) ** 2 for part in parts) / (n - 1)
        root = math.sqrt(float((variance / n).mean()))
        assert found.figures["standard_error"] == pytest.approx(root, rel=1e-9)


def test_captum_agrees_on_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traced()
    starts, alphas = zip(*drawn(trace, "grey", 6), strict=True)
    monkeypatch.setattr(np.random, "uniform", lambda *_: np.array(alphas))
    theirs = InputBaselineXGradient(lambda pixels: trace.model.logits(pixels)[:, 2])
    found = theirs.attribute(trace.pixels.repeat(6, 1, 1, 1), baselines=torch.stack(starts))
    monkeypatch.undo()
    heat = run("gradient_shap", trace, 2, baseline="grey", samples=6, sigma=SIGMA, seed=SEED)
    close(heat.values, found.detach().mean(0).sum(0))


def test_a_linear_model_is_explained_exactly_by_any_number_of_draws() -> None:
    trace = closed()
    w, x = trace.model.module.w.detach()[1], trace.pixels[0]
    for samples in (2, 5):
        heat = run("gradient_shap", trace, 1, baseline="white", sigma=0.0, samples=samples)
        close(heat.values, (w * (x - baseline(trace, "white"))).sum(0))
        assert heat.figures["completeness_error_percent"] < 1e-9
        assert heat.figures["standard_error"] < 1e-12
    noisy = run("gradient_shap", trace, 1, sigma=0.5, samples=5)
    assert noisy.figures["completeness_error_percent"] < 1e-9
    assert noisy.figures["standard_error"] > 0


def test_squares_are_completed_and_the_standard_error_does_not_promise_too_much() -> None:
    """y = Σ x² from zero without noise: x² in expectation, whatever the draws."""
    trace = closed(squared=True)
    wanted = trace.pixels[0].pow(2).sum(0).numpy()
    settings = {"baseline": "grey", "sigma": 0.0, "samples": 20}
    heats = [run("gradient_shap", trace, 0, seed=seed, **settings) for seed in range(10)]
    scatter = np.sqrt(np.mean([(heat.values - wanted) ** 2 for heat in heats]))
    assert scatter <= heats[0].figures["standard_error"] < 0.1 * wanted.max()
    assert all(heat.figures["completeness_error_percent"] < 5 for heat in heats)


def test_more_draws_come_nearer_to_integrated_gradients() -> None:
    trace = traced()
    wanted = run("integrated_gradients", trace, 1, steps=100).values
    errors = [
        np.abs(run("gradient_shap", trace, 1, sigma=0.0, samples=n).values - wanted).mean()
        for n in (4, 200)
    ]
    assert errors[1] < errors[0] / 10


@pytest.mark.parametrize("name", ["smoothgrad", "gradient_shap"])
def test_half_precision_gives_the_same_map(name: str) -> None:
    whole = tiny_vit(dtype=torch.float32)
    half = tiny_vit(dtype=torch.float32).to(torch.bfloat16)
    settings = {"kind": "squared"} if name == "smoothgrad" else {}
    maps = []
    for module in (whole, half):
        heat = run(name, wrap_model(module).trace(PHOTO), 1, resolution="patch", **settings)
        assert heat.values.dtype == np.float32
        maps.append(heat.values.ravel())
    assert np.corrcoef(maps)[0, 1] > 0.99


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("smoothgrad", {"kind": "median"}, "one of mean, squared, variance"),
        ("gradient_shap", {"samples": 1}, r"2\.\.1000"),
        ("gradient_shap", {"sigma": -0.1}, r"0\.0\.\.1\.0"),
        ("gradient_shap", {"baseline": "pink"}, "black, white"),
    ],
)
def test_bad_settings_name_the_range(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(name, traced(), **settings)


def test_costs_count_every_pass() -> None:
    trace = traced()
    seen: list[tuple[int, int]] = []
    run("gradient_shap", trace, 1, samples=6, progress=lambda *at: seen.append(at))
    assert seen[-1] == (10, 12)  # the last two of 12 pictures are about to run
    assert methods()["gradient_shap"].cost({"samples": 6}, 16) == 24
