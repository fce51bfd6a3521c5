"""The CAM family on tokens: each method against its slow twin, closed forms and axioms."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import HeatMap, ModelError, VisionModel, explain, load_photo, methods, wrap_model
from explainers.methods.eigen_cam import first_axis
from explainers.trace import Trace
from tests.slow_vit import norm, slow_forward
from tests.tiny import DEPTH, VARIANTS, WIDTH, tiny_encoder, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
WEIGHED = ("grad_cam", "grad_cam_plus_plus", "hires_cam", "layer_cam", "xgrad_cam")
CAMS = (*WEIGHED, "eigen_cam", "score_cam")
CLASSIFIERS = [name for name in VARIANTS if name != "headless"]
LAST = DEPTH - 1


def traced(variant: str = "plain", **more: object) -> Trace:
    return wrap_model(tiny_vit(**{**VARIANTS[variant], **more})).trace(PHOTO)


def run(name: str, trace: Trace, target: int | None = None, **more: object) -> HeatMap:
    heat = explain(name, trace, target, **more)  # type: ignore[arg-type]
    assert isinstance(heat, HeatMap)
    return heat


def said(heat: HeatMap) -> list[str]:
    """The keys of the method's own notes."""
    return [note.key for note in heat.notes if note.key != "untrained_grid"]


def close(values: np.ndarray, wanted: object, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(values, np.asarray(wanted), rtol=0, atol=tolerance)


def auto(variant: str, block: int) -> str:
    """The latest point at which patches count, from the definition."""
    return "norm1" if block == LAST and "global_pool" not in VARIANTS[variant] else "output"


# -- slow twins ----------------------------------------------------------------------------


def slow_features(trace: Trace, block: int, at: str) -> Tensor:
    with torch.no_grad():
        slow = slow_forward(trace.model.module, trace.pixels[0])
        if at == "output":
            return slow.stream[block + 1][trace.prefix :]
        return norm(slow.stream[block], trace.model.module.blocks[block].norm1)[trace.prefix :]


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


# -- closed forms --------------------------------------------------------------------------


def linear_head(seed: int = 0) -> tuple[Trace, Tensor, Tensor]:
    """A model whose answer is linear in the last block's output; w_target and that output."""
    module = tiny_vit(global_pool="avg", final_norm=False, seed=seed)
    trace = wrap_model(module).trace(PHOTO, keep=("output",))
    return trace, module.head.weight.detach()[2], trace.tensor("output", LAST)[trace.prefix :]


def test_with_a_linear_head_three_cams_are_one() -> None:
    trace, w, features = linear_head()
    count = len(features)
    wanted = (features @ w / count).clamp(min=0).reshape(trace.grid)
    for name in ("grad_cam", "hires_cam", "xgrad_cam"):
        close(run(name, trace, 2).values, wanted)
    positive = features @ (w.clamp(min=0) / count)
    close(run("layer_cam", trace, 2).values, positive.clamp(min=0).reshape(trace.grid))
    g = w.clamp(min=0) / count
    weights = count * g / (2 + g * features.sum(0))
    wanted = (features @ weights).clamp(min=0).reshape(trace.grid)
    close(run("grad_cam_plus_plus", trace, 2).values, wanted)


def test_hires_cam_completes_a_linear_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "relu", lambda values: values)  # see the map before its ReLU
    trace, _, _ = linear_head()
    bias = float(trace.model.module.head.bias.detach()[2])
    total = run("hires_cam", trace, 2).values.sum() + bias
    assert total == pytest.approx(float(trace.logits[0, 2]))  # type: ignore[index]


def test_xgrad_cam_keeps_the_first_order_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "relu", lambda values: values)  # see the map before its ReLU
    trace = traced("rectangle")
    gradients = trace.gradients(1).tensors["norm1"]
    features, gradient = (tensor[trace.prefix :] for tensor in gradients)
    total = float((features * gradient).sum())
    assert run("xgrad_cam", trace, 1).values.sum() == pytest.approx(total)
    assert run("hires_cam", trace, 1).values.sum() == pytest.approx(total)


# -- axioms and refusals -------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["plain", "average"])
@pytest.mark.parametrize("name", WEIGHED)
def test_a_class_without_gradient_has_a_flat_map(name: str, variant: str) -> None:
    module = tiny_vit(**VARIANTS[variant])
    with torch.no_grad():
        module.head.weight[2] = 0
    trace = wrap_model(module).trace(PHOTO)
    for settings in ({}, {"block": 0}, {"at": "norm1"}, {"at": "output"}):
        heat = run(name, trace, 2, **settings)
        assert heat.flat
        assert not heat.values.any()
        assert "cam_all_clipped" not in said(heat)


@pytest.mark.parametrize("variant", ["plain", "registers", "distilled", "rectangle"])
@pytest.mark.parametrize("name", [name for name in CAMS if name != "eigen_cam"])
def test_a_place_after_which_no_patch_counts_is_refused(name: str, variant: str) -> None:
    trace = traced(variant)
    with pytest.raises(ModelError, match=f'After block {LAST} .* choose at="norm1"'):
        run(name, trace, 1, at="output")
    settings = {"block": LAST - 1, "at": "output"}
    assert run(name, trace, 1, **settings).values.shape == trace.grid


@pytest.mark.parametrize("variant", CLASSIFIERS)
def test_auto_is_the_latest_place_with_a_gradient(variant: str) -> None:
    trace = traced(variant)
    pairs = trace.gradients(1).tensors
    alive = [name for name in ("output", "norm1") if pairs[name][1][trace.prefix :].any()]
    assert alive[0] == auto(variant, LAST)
    for name in WEIGHED:
        close(run(name, trace, 1).values, run(name, trace, 1, at=alive[0]).values, 0)
        close(run(name, trace, 1, block=0).values, run(name, trace, 1, block=0, at="output").values)


@pytest.mark.parametrize("pooling", ["max", "avgmax", "map"])
def test_other_poolings_read_the_last_output(pooling: str) -> None:
    trace = traced(global_pool=pooling, class_token=pooling != "map")
    for name in CAMS:
        values = run(name, trace, 1).values
        assert values.shape == trace.grid
        if name != "eigen_cam":
            close(values, run(name, trace, 1, at="output").values)


def test_what_is_wholly_clipped_is_said() -> None:
    trace, _, features = linear_head()
    with torch.no_grad():
        trace.model.module.head.weight[2] = -features.mean(0) * 100
        trace.model.module.head.weight[3] = features.mean(0) * 100
    trace = trace.model.trace(PHOTO)
    notes = {c: said(run("grad_cam", trace, c)) for c in (2, 3)}
    wholly = {c: not run("grad_cam", trace, c).values.any() for c in (2, 3)}
    assert notes == {c: ["cam_all_clipped"] * wholly[c] for c in (2, 3)}
    assert wholly[2] != wholly[3]


def test_instability_is_said_with_its_share() -> None:
    trace = traced()
    features = slow_features(trace, LAST, "norm1")
    share = round(100 * float((features < 0).double().mean()))
    for name in ("grad_cam_plus_plus", "xgrad_cam"):
        heat = run(name, trace, 1)
        assert said(heat) == ["cam_unstable"]
        assert heat.notes[0].startswith("Unstable here")
        assert heat.notes[0].values == {"share": share}
        assert "Unstable here" in methods()[name].limits
    assert not said(run("grad_cam", trace, 1))


@pytest.mark.parametrize("name", CAMS)
def test_what_is_clipped_by_definition_is_declared(name: str) -> None:
    method = methods()[name]
    assert method.signed == (name == "eigen_cam")
    assert ("lipped" in method.limits) == (not method.signed)


def test_post_norm_and_tokens_first_models_are_refused_beforehand() -> None:
    for arguments in ({"norm_first": False}, {}):
        module = tiny_encoder(**arguments)
        if not arguments:
            for layer in module.encoder.layers:
                layer.self_attn.batch_first = False
            module.encoder.forward = _tokens_first(module.encoder)
        vit = wrap_model(module, size=(16, 16))
        for name in CAMS:
            support = vit.supports(name)
            assert not support
            assert "no norm with weights" in str(support.reason)
            with pytest.raises(ModelError, match="no norm with weights"):
                explain(name, vit.trace(PHOTO))
    encoder = wrap_model(tiny_encoder(), size=(16, 16))
    assert all(encoder.supports(name) for name in CAMS)


def _tokens_first(encoder: nn.TransformerEncoder):  # type: ignore[no-untyped-def]
    """The encoder's forward pass with tokens before photos, as older models have it."""

    def forward(x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        for layer in encoder.layers:
            x = layer(x)
        return x.transpose(0, 1)

    return forward


def test_models_of_nn_transformer_encoder_equal_autograd() -> None:
    trace = wrap_model(tiny_encoder(), size=(16, 16)).trace(PHOTO)
    kept: dict[str, Tensor] = {}
    layer = trace.model.module.encoder.layers[LAST]
    handle = layer.norm1.register_forward_hook(lambda *a: kept.update(norm1=a[2]))
    with torch.enable_grad():
        logits = trace.model.module(trace.pixels.clone().requires_grad_())
    handle.remove()
    (gradient,) = torch.autograd.grad(logits[0, 1], kept["norm1"])
    features, gradient = kept["norm1"].detach()[0, 1:], gradient[0, 1:]
    wanted = (features @ gradient.mean(0)).clamp(min=0)
    close(run("grad_cam", trace, 1).values, wanted.reshape(trace.grid))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("grad_cam", {"block": 3}, r"-3\.\.2"),
        ("layer_cam", {"at": "input"}, "one of auto, norm1, output"),
        ("score_cam", {"channels": 0}, r"1\.\.2048"),
        ("eigen_cam", {"block": "last"}, r"-3\.\.2"),
    ],
)
def test_bad_settings_name_the_range(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(name, traced(), **settings)


# -- cost ----------------------------------------------------------------------------------


def counted(trace: Trace) -> list[int]:
    """Grows by the number of photos at each run of the model."""
    runs: list[int] = []
    trace.model.module.register_forward_hook(lambda _, inputs, __: runs.append(len(inputs[0])))
    return runs


def test_the_default_cams_share_one_gradient_pass() -> None:
    for trace in (traced(), traced("average")):
        runs = counted(trace)
        run("saliency", trace, 1)
        for name in (*WEIGHED, "eigen_cam"):
            run(name, trace, 1)
            run(name, trace, 1, at="norm1")
        assert runs == [1]
        run("grad_cam", trace, 1, block=0)
        assert runs == [1, 1]
        run("hires_cam", trace, 2)
        assert runs == [1, 1, 1]


def test_eigen_and_score_cam_run_what_they_declare() -> None:
    trace = traced()
    runs = counted(trace)
    run("eigen_cam", trace)
    run("eigen_cam", trace, block=0)
    assert runs == [1, 1]
    run("eigen_cam", trace, block=1)  # of a kind that is at hand now
    assert runs == [1, 1]
    trace = trace.model.trace(PHOTO)
    runs.clear()
    run("score_cam", trace, 1, channels=11)
    assert sum(runs) == methods()["score_cam"].cost({"channels": 11}, 16) == 12
    assert max(runs) <= 8
    kept = trace.model.trace(PHOTO, keep=("norm1",))
    runs.clear()
    run("eigen_cam", kept)
    run("eigen_cam", kept, block=0, at="norm1")
    assert not runs


def test_the_way_to_the_features_does_not_show_in_the_map(embedded: VisionModel) -> None:
    """Kept by the trace, left by the gradient pass, or run again: the same bytes."""
    alone = embedded.trace(PHOTO)
    after = embedded.trace(PHOTO)
    run("saliency", after, 3)
    kept = embedded.trace(PHOTO, keep=("norm1", "output"))
    for at in ("norm1", "output"):
        maps = {run("eigen_cam", trace, at=at).values.tobytes() for trace in (alone, after, kept)}
        assert len(maps) == 1


def test_float32_is_near_float64_on_the_embedded_model(embedded: VisionModel) -> None:
    module = copy.deepcopy(embedded.module).double()
    exact = wrap_model(module, embedded.preprocessing).trace(PHOTO)
    trace = embedded.trace(PHOTO)
    for name in (*WEIGHED, "eigen_cam"):
        if name == "xgrad_cam":  # its sums cancel, which magnifies the features' own rounding
            features, gradients = (t[1:].double() for t in trace.gradients(3).tensors["norm1"])
            weights = (gradients * features).sum(0) / features.sum(0)
            wanted = (features @ weights).clamp(min=0).reshape(trace.grid).numpy()
        else:
            wanted = run(name, exact, 3).values
        size = np.abs(wanted).max()
        close(run(name, trace, 3).values / size, wanted / size, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_finite_float32(dtype: torch.dtype) -> None:
    trace = traced(dtype=dtype)
    for name in CAMS:
        if not trace.model.supports(name):
            assert name in ("grad_cam_plus_plus", "xgrad_cam")  # rounding decides their maps
            continue
        heat = run(name, trace, 1)
        assert heat.values.dtype == np.float32
        assert np.isfinite(heat.values).all()


@pytest.mark.parametrize("name", CAMS)
def test_captured_tensors_and_the_next_map_stay_as_they_are(name: str) -> None:
    trace = traced("average")
    pairs = trace.gradients(1).tensors
    before = {key: [tensor.clone() for tensor in pair] for key, pair in pairs.items()}
    first = run(name, trace, 1).values.tobytes()
    assert run(name, trace, 1).values.tobytes() == first
    for key, pair in trace.gradients(1).tensors.items():
        assert all(torch.equal(a, b) for a, b in zip(pair, before[key], strict=True))
