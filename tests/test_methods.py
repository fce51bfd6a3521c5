"""Each method against its slow twin from the definition, its closed forms and its axioms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import (
    Cancelled,
    HeatMap,
    ModelError,
    explain,
    load_photo,
    methods,
    wrap_model,
)
from explainers.methods.baselines import BASELINES, baseline, baseline_image
from explainers.methods.rollout import step
from explainers.trace import Trace
from tests.closed_forms import closed
from tests.slow_vit import decision, slow_forward
from tests.tiny import LABELS, RECTANGLE, VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
OTHER = load_photo(tiny_photo_array(seed=9))
CLASSIFIERS = [name for name in VARIANTS if name != "headless"]
SETTINGS: dict[str, dict[str, object]] = {
    "integrated_gradients": {"steps": 6},
    "smoothgrad": {"samples": 6},
    "gradient_shap": {"samples": 6},
    "score_cam": {"channels": 8, "at": "norm1"},
    "rise": {"masks": 24, "cells": 3},
    "kernel_shap": {"samples": 64},
    "lime": {"samples": 64},
}


def traced(variant: str = "plain", **more: object) -> Trace:
    return wrap_model(tiny_vit(**{**VARIANTS[variant], **more}), labels=LABELS).trace(PHOTO)


def run(name: str, trace: Trace, target: int | str | None = None, **more: object) -> HeatMap:
    heat = explain(name, trace, target, **{**SETTINGS.get(name, {}), **more})  # type: ignore[arg-type]
    assert isinstance(heat, HeatMap)
    return heat


def close(values: np.ndarray, wanted: Tensor | np.ndarray, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(values, np.asarray(wanted), rtol=0, atol=tolerance)


# -- attention -----------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_is_the_decision_row(variant: str) -> None:
    trace = (
        traced(variant)
        if variant != "headless"
        else wrap_model(tiny_vit(num_classes=0)).trace(PHOTO)
    )
    module, p = trace.model.module, trace.prefix
    with torch.no_grad():
        A = slow_forward(module, trace.pixels[0]).A
    r = decision(module, trace.tokens)
    for block in (0, -1):
        for head, fused in (
            ("mean", A[block].mean(0)),
            ("max", A[block].amax(0)),
            (1, A[block][1]),
        ):
            heat = run("attention", trace, block=block, head=head)
            close(heat.values, (r @ fused)[p:].reshape(trace.grid))
            assert heat.prefix_share == pytest.approx(float((r @ fused)[:p].sum()))
    close(run("attention", trace, row=3).values, A[-1].mean(0)[3, p:].reshape(trace.grid))


# -- rollout -------------------------------------------------------------------------------


def slow_rollout(
    A: list[Tensor], r: Tensor, fusion: str, discard: float, start: int, prefix: int
) -> Tensor:
    """Whole matrices, multiplied from the bottom up."""
    n = len(r)
    result = torch.eye(n, dtype=torch.float64)
    for matrix in A[start:]:
        fused = {"mean": matrix.mean(0), "max": matrix.amax(0), "min": matrix.amin(0)}[fusion]
        fused = fused.clone()
        entries = sorted((float(fused[i, j]), i, j) for i in range(n) for j in range(n))
        for _, i, j in entries[: int(discard * n * n)]:
            if j >= prefix:
                fused[i, j] = 0
        step = fused + torch.eye(n, dtype=torch.float64)
        step = step / step.sum(1, keepdim=True)
        torch.testing.assert_close(step.sum(1), torch.ones(n, dtype=torch.float64))
        result = step @ result
    return r @ result


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("fusion", ["mean", "max", "min"])
@pytest.mark.parametrize("discard", [0.0, 0.3, 0.9])
def test_rollout_equals_whole_matrices(variant: str, fusion: str, discard: float) -> None:
    trace = wrap_model(tiny_vit(**VARIANTS[variant])).trace(PHOTO)
    with torch.no_grad():
        A = slow_forward(trace.model.module, trace.pixels[0]).A
    r, p = decision(trace.model.module, trace.tokens), trace.prefix
    for start in (0, 1):
        heat = run("rollout", trace, fusion=fusion, discard=discard, start_block=start)
        wanted = slow_rollout(A, r, fusion, discard, start, p)
        close(heat.values, wanted[p:].reshape(trace.grid))
        assert heat.prefix_share is not None
        assert heat.values.sum() + heat.prefix_share == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "depth", "diagonal", "off"),
    [
        ({"size": (8, 8)}, 3, 0.3, 0.175),
        ({"size": (56, 56)}, 12, 0.005319043464467005, 0.005074902839467005),
        ({"size": (56, 56), "distilled": True}, 12, 0.005293412642045455, 0.005049272017045455),
    ],
)
def test_rollout_of_uniform_attention(
    settings: dict[str, object], depth: int, diagonal: float, off: float
) -> None:
    module = tiny_vit(**settings, depth=depth)
    with torch.no_grad():
        for block in module.blocks:  # queries of zero look everywhere alike
            block.attn.qkv.weight[:16] = 0
            block.attn.qkv.bias[:16] = 0
    trace = wrap_model(module).trace(PHOTO)
    heat = run("rollout", trace, row=0)
    close(heat.values, np.full(trace.grid, off), 1e-12)
    assert heat.prefix_share == pytest.approx(diagonal + off * (trace.prefix - 1), abs=1e-12)
    assert heat.flat
    patch = run("rollout", trace, row=trace.prefix)  # its own patch is on the diagonal
    assert patch.values[0, 0] == pytest.approx(diagonal, abs=1e-12)


def test_rollout_of_identity_attention_is_the_identity() -> None:
    look = torch.rand(7, dtype=torch.float64)
    rows = torch.arange(7)
    torch.testing.assert_close(step(look, rows, torch.eye(7, dtype=torch.float64)), look)


def test_rollout_rows_sum_to_one_at_any_discard_and_captured_tensors_stay() -> None:
    trace = traced("registers")
    before = [call.q.clone() for call in trace.calls] + [call.k.clone() for call in trace.calls]
    first = run("rollout", trace, discard=0.9, fusion="max")
    again = run("rollout", trace, discard=0.9, fusion="max")
    after = [call.q for call in trace.calls] + [call.k for call in trace.calls]
    assert first.values.tobytes() == again.values.tobytes()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    for row in range(trace.tokens):
        heat = run("rollout", trace, row=row, discard=0.7)
        assert heat.values.sum() + heat.prefix_share == pytest.approx(1, abs=1e-12)


def test_discard_is_refused_above_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from explainers.methods import rollout

    monkeypatch.setattr(rollout, "MAX_DISCARD_TOKENS", 16)
    assert run("rollout", traced()).values.shape == (4, 4)
    with pytest.raises(ModelError, match="up to 16 tokens; this photo has 17"):
        run("rollout", traced(), discard=0.5)


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
    assert exact.figures["completeness_error"] < 1
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
        assert heat.figures["completeness_error"] < 1e-6
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
    error = heat.figures["completeness_error"]
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


# -- what holds for every method --------------------------------------------------------------


@pytest.mark.parametrize("name", methods())
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_finite_map_of_the_right_shape_or_a_reason(name: str, variant: str) -> None:
    trace = wrap_model(tiny_vit(**VARIANTS[variant], dtype=torch.float32)).trace(PHOTO)
    support = trace.model.supports(name)
    if not support:
        assert variant == "headless"
        assert support.reason
        with pytest.raises(ModelError) as caught:
            run(name, trace)
        assert str(caught.value) == support.reason
        return
    heat = run(name, trace)
    shapes = {"grid": trace.grid, "pixels": trace.pixels.shape[2:], "rgb": (*trace.grid, 3)}
    assert heat.values.shape == shapes[heat.kind]
    assert heat.values.dtype == np.float32
    assert np.isfinite(heat.values).all()
    assert heat.signed or heat.values.min() >= 0
    assert not heat.flat


@pytest.mark.parametrize("name", methods())
def test_the_map_moves_when_it_must(name: str) -> None:
    trace = traced()
    values = run(name, trace, 1).values
    specific = methods()[name].class_specific
    assert specific != np.allclose(values, run(name, trace, 2).values, atol=1e-9)
    if specific:
        contrast = run(name, trace, 1, against=2)
        assert contrast.against is not None
        assert not np.allclose(values, contrast.values, atol=1e-9)
    assert not np.allclose(values, run(name, traced(seed=4), 1).values, atol=1e-9)
    assert not np.allclose(values, run(name, trace.model.trace(OTHER), 1).values, atol=1e-9)


@pytest.mark.parametrize("name", methods())
def test_a_batch_equals_single_runs(name: str) -> None:
    vit = wrap_model(tiny_vit(size=RECTANGLE, dtype=torch.float32))
    photos = [PHOTO, OTHER, PHOTO, OTHER]
    maps = explain(name, vit.trace(photos), 2, **SETTINGS.get(name, {}))  # type: ignore[arg-type]
    assert isinstance(maps, list)
    for heat, photo in zip(maps, photos, strict=True):
        close(heat.values, run(name, vit.trace(photo), 2).values, 1e-5)
        assert heat.photo is photo


@pytest.mark.parametrize("name", methods())
def test_progress_and_cancel(name: str) -> None:
    trace = traced()
    seen: list[tuple[int, int]] = []
    run(name, trace, 1, progress=lambda done, total: seen.append((done, total)))
    assert all(0 <= done <= total for done, total in seen)
    assert seen == sorted(seen)
    if methods()[name].class_specific:
        assert seen

        def stop(done: int, total: int) -> None:
            raise Cancelled

        with pytest.raises(Cancelled):
            run(name, traced(), 1, progress=stop)


@pytest.mark.parametrize("name", methods())
def test_declarations_are_complete(name: str) -> None:
    method = methods()[name]
    for text in (method.title, method.meaning, method.paper, method.bibtex, method.limits):
        assert text.strip()
    assert method.meaning.endswith(".")
    assert method.cost(method.defaults, 196) >= 0
    for parameter in method.parameters:
        assert parameter.meaning.endswith(".")
    trace = traced()
    heat = run(name, trace)
    provenance = heat.provenance
    assert provenance["photo_sha256"] == PHOTO.sha256
    assert provenance["loaded_weights_sha256"] == trace.model.weights_hash
    assert provenance["parameters"] == dict(heat.parameters)
    assert "path" not in str(provenance)


def test_targets() -> None:
    trace = traced()
    top = trace.top(1)[0]
    heat = run("saliency", trace)
    assert heat.target is not None
    assert (heat.target.index, heat.target.label) == top[:2]
    assert heat.target.probability == pytest.approx(top[2])
    assert run("saliency", trace, "TABBY").target.index == 0  # type: ignore[union-attr]
    assert run("saliency", trace, "king of beasts").target.index == 3  # type: ignore[union-attr]
    assert run("rollout", trace).target is None
    for bad, message in (
        ("cat", "tabby cat.*Persian cat"),
        ("unicorn", "unicorn"),
        (5, "0 to 4"),
        (-1, "0 to 4"),
    ):
        with pytest.raises(ValueError, match=message):
            run("saliency", trace, bad)
    with pytest.raises(ValueError, match="itself"):
        run("saliency", trace, 1, against=1)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("nonsense", {}, "attention.*rollout"),
        ("rollout", {"blocks": 1}, "has no setting 'blocks'; it has: fusion"),
        ("rollout", {"fusion": "median"}, "one of mean, max, min"),
        ("rollout", {"discard": 1.5}, r"0\.0\.\.0\.99"),
        ("rollout", {"discard": float("nan")}, r"0\.0\.\.0\.99"),
        ("rollout", {"row": 17}, r"0\.\.16"),
        ("attention", {"block": 3}, r"-3\.\.2"),
        ("attention", {"head": 2}, r"-2\.\.1 or one of mean, max"),
        ("attention", {"head": True}, r"-2\.\.1"),
        ("integrated_gradients", {"steps": 0}, r"1\.\.500"),
        ("integrated_gradients", {"steps": 2.5}, "whole number"),
        ("occlusion", {"fill": "pink"}, "black, white"),
    ],
)
def test_bad_settings_name_the_range(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain(name, traced(), **settings)  # type: ignore[arg-type]


def test_an_untrained_grid_is_said() -> None:
    trace = wrap_model(tiny_vit(), trained_grids=[(6, 6)]).trace(PHOTO)
    notes = run("rollout", trace).notes
    assert [note.key for note in notes] == ["untrained_grid"]
    assert "4×4" in notes[0]
    assert "6×6" in notes[0]
    assert not run("rollout", wrap_model(tiny_vit(), trained_grids=[(4, 4)]).trace(PHOTO)).notes


@pytest.mark.parametrize(
    ("name", "settings", "plain"),
    [
        ("attention", {"block": np.int64(1), "head": torch.tensor(1)}, {"block": 1, "head": 1}),
        ("attention", {"row": np.uint8(2)}, {"row": 2}),
        ("rollout", {"discard": np.float32(0.5)}, {"discard": 0.5}),
        ("integrated_gradients", {"steps": np.int32(3)}, {"steps": 3}),
    ],
)
def test_numbers_of_any_kind_are_settings(
    name: str, settings: dict[str, object], plain: dict[str, object]
) -> None:
    heat, wanted = run(name, traced(), **settings), run(name, traced(), **plain)
    assert np.array_equal(heat.values, wanted.values)
    assert [type(value) for value in heat.parameters.values()] == [
        type(value) for value in wanted.parameters.values()
    ]


@pytest.mark.parametrize("head", [np.array([1, 2]), [1], 1.0, "x" * 5000, 10**5000], ids=range(5))
def test_what_is_no_setting_is_named_in_one_short_sentence(head: object) -> None:
    with pytest.raises(ValueError, match="must be a whole number in") as error:
        explain("attention", traced(), head=head)
    assert len(str(error.value)) < 250


def test_only_traces_are_explained() -> None:
    for wrong in (PHOTO, wrap_model(tiny_vit()), None):
        with pytest.raises(TypeError, match=r"make one with model\.trace\(photo\)"):
            explain("rollout", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "words"), [(torch.float64, "check the weights"), (torch.float16, "try float32")]
)
def test_numbers_that_are_not_finite_are_refused(dtype: torch.dtype, words: str) -> None:
    module = tiny_vit(dtype=dtype)
    with torch.no_grad():
        module.get_parameter("head.weight").fill_(float("nan"))
    with pytest.raises(ModelError, match=words):
        explain("saliency", wrap_model(module).trace(PHOTO))
