"""The shared gradient pass has three ways to the same numbers: see `Trace.gradients`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from explainers import explain, load_photo, wrap_model
from explainers.gradients import Gradients, class_score, gradient_pass
from explainers.step_gradients import step_by_step
from explainers.trace import Trace
from tests.tiny import tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())

KINDS: dict[str, dict[str, Any]] = {
    "token": {},
    "average": {"global_pool": "avg", "class_token": False},
    "registers": {"reg_tokens": 2},
    "pool": {"global_pool": "map", "class_token": False, "reg_tokens": 2},
}


def same(first: Gradients, second: Gradients) -> bool:
    pairs = [(first.pixels, second.pixels)]
    pairs += [*zip(first.values, second.values, strict=True)]
    pairs += [*zip(first.outputs, second.outputs, strict=True)]
    for name in first.tensors:
        pairs += [*zip(first.tensors[name], second.tensors[name], strict=True)]
    return list(first.tensors) == list(second.tensors) and all(
        torch.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in pairs
    )


def counted(trace: Trace) -> list[int]:
    runs: list[int] = []
    trace.model.module.register_forward_hook(lambda *_: runs.append(1))
    return runs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("against", [None, 0])
def test_step_by_step_gives_what_one_graph_gives(kind: str, against: int | None) -> None:
    trace = wrap_model(tiny_vit(**KINDS[kind])).trace(PHOTO)
    score = class_score(2, against)
    stages = trace.model.adapter.stages()
    assert stages is not None
    whole = gradient_pass(trace.model, trace.pixels, score)
    assert same(whole, step_by_step(trace.model, stages, trace.pixels, score))
    other = step_by_step(trace.model, stages, trace.pixels, class_score(1, against))
    assert not same(whole, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_made_with_its_graph_runs_the_model_once(kind: str) -> None:
    model = wrap_model(tiny_vit(**KINDS[kind]))
    plain = model.trace(PHOTO)
    ready = model.trace(PHOTO, gradients=True)
    assert ready.logits is not None
    assert not ready.logits.requires_grad
    assert torch.equal(plain.logits, ready.logits)
    for first, second in zip(plain.calls, ready.calls, strict=True):
        assert torch.equal(first.q, second.q)
        assert torch.equal(first.k, second.k)
        assert (second.v, second.output) == (None, None)
    runs = counted(ready)
    assert same(plain.gradients(2), ready.gradients(2))
    assert not runs[1:]  # the one run is the plain trace's, whose module this is too
    assert same(plain.gradients(1), ready.gradients(1))
    assert len(runs) == 3  # another target runs the model again, like the plain trace


def test_features_of_a_trace_with_its_graph_hold_no_graph() -> None:
    ready = wrap_model(tiny_vit()).trace(PHOTO, keep=["heads"], gradients=True)
    assert not ready.tensor("heads", 0).requires_grad
    assert not ready.features("output", 2).requires_grad


def test_a_large_photo_goes_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = wrap_model(tiny_vit()).trace(PHOTO)
    wanted = explain("relevance", trace, target=1).values
    runs = counted(trace)
    monkeypatch.setattr("explainers.trace.LARGE", trace.tokens)
    fresh = trace.model.trace(PHOTO)
    runs.clear()
    assert (explain("relevance", fresh, target=1).values == wanted).all()
    assert not runs  # the model as a whole was not called: its blocks were


def test_several_photos_ignore_the_wish_for_a_graph() -> None:
    model = wrap_model(tiny_vit())
    both = model.trace([PHOTO, PHOTO], gradients=True)
    assert same(both[0].gradients(1), model.trace(PHOTO).gradients(1))
