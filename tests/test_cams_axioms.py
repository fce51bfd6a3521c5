"""The CAM family: closed forms, axioms, and where it is refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from explainers import ModelError, explain, methods, wrap_model
from explainers.trace import Trace
from tests.cams import (
    CAMS,
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
from tests.tiny import VARIANTS, tiny_encoder, tiny_vit

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
