"""Modules and requests that cannot be answered rightly: one sentence each, and no wrong map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from explainers import ModelError, Photo, VisionModel, explain, measure, wrap_model
from explainers.separate_looks import SeparateLooks
from explainers.trace import Trace
from tests.tiny import tiny_photo_array, tiny_vit

PHOTO = Photo(tiny_photo_array(), "photo", ())
OTHER = Photo(tiny_photo_array(30, 20), "other", ())


class Around(nn.Module):
    """A module with something of one's own after it."""

    def __init__(self, after: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.inner, self.after = tiny_vit(), after

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.after(self.inner(pixels))


def own(after: Callable[[torch.Tensor], torch.Tensor]) -> VisionModel:
    return wrap_model(Around(after).eval(), size=16)


def traced(photo: Photo = PHOTO) -> Trace:
    return wrap_model(tiny_vit()).trace(photo)


def tied(first: str, second: str) -> VisionModel:
    module: Any = tiny_vit()
    module.get_submodule(first).weight = module.get_submodule(second).weight
    return wrap_model(module)


@pytest.mark.parametrize(
    ("first", "second"), [("norm", "blocks.1.norm1"), ("blocks.1.norm2", "blocks.1.norm1")]
)
def test_a_norm_whose_weight_has_two_places_is_no_name_of_one(first: str, second: str) -> None:
    vit = tied(first, second)
    for method in ("grad_cam", "legrad", "eigen_cam"):
        assert "shared between parts" in str(vit.supports(method).reason)
    assert vit.supports("saliency")


def test_a_model_that_draws_at_random_is_refused() -> None:
    vit = own(lambda answer: F.dropout(answer, 0.5, training=True))
    with pytest.raises(ModelError, match="at random although it is in evaluation mode"):
        vit.trace(PHOTO)
    assert own(lambda answer: F.dropout(answer, 0.5, training=False)).trace(PHOTO)


def test_a_model_without_a_graph_has_perturbations_only() -> None:
    vit = own(torch.Tensor.detach)
    assert "leaves gradients out" in str(vit.supports("saliency").reason)
    assert explain("occlusion", vit.trace(PHOTO)).values.shape == (4, 4)  # type: ignore[union-attr]


def test_weights_of_inference_mode_have_no_gradients() -> None:
    with torch.inference_mode():
        module = tiny_vit()
    vit = wrap_model(module)
    assert "inference_mode" in str(vit.supports("relevance").reason)
    assert vit.supports("rollout")


def test_computed_weights_are_said_not_to_be_known() -> None:
    module: Any = tiny_vit()
    nn.utils.parametrizations.weight_norm(module.blocks[0].attn.proj)
    assert "weight normalisation" in str(wrap_model(module).supports("rollout").reason)


def broken_heads() -> nn.Module:
    module: Any = tiny_vit()
    module.blocks[0].attn.num_heads = 3
    return module


@pytest.mark.parametrize(
    "module",
    [lambda: tiny_vit(in_chans=1), lambda: tiny_vit().to("meta"), broken_heads],
    ids=["grey", "no memory", "heads"],
)
def test_a_module_that_does_not_run_is_answered_in_its_words(module: Any) -> None:
    vit = wrap_model(module())
    assert "could not be run on an input" in str(vit.supports("rollout").reason)
    with pytest.raises(ModelError, match="could not be run on an input"):
        vit.trace(PHOTO)


def test_training_mode_supports_nothing() -> None:
    module = tiny_vit()
    vit = wrap_model(module)
    module.train()
    assert all("model.eval()" in str(vit.supports(m).reason) for m in ("rollout", "grad_cam"))


@pytest.mark.parametrize(
    ("module", "words"), [(None, "None came"), ("abc", "abc came"), (nn.Linear, "Linear")]
)
def test_what_is_no_module_is_told(module: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"A torch module was expected.*{words}"):
        wrap_model(module)


def test_modules_with_nothing_to_explain_are_told() -> None:
    with pytest.raises(ModelError, match="has no weights"):
        wrap_model(nn.Identity().eval(), size=16)
    with pytest.raises(ModelError, match="not read yet"):
        wrap_model(tiny_vit(depth=0))


def test_cells_beyond_the_photo_are_refused() -> None:
    module = tiny_vit(dynamic_img_size=True, dynamic_img_pad=True)
    with pytest.raises(ModelError, match="whole patches of 4×4"):
        wrap_model(module, size=18)
    assert wrap_model(module, size=20).trace(PHOTO).grid == (5, 5)


@pytest.mark.parametrize("method", ["eigen_cam", "feature_pca", "rollout"])
def test_weights_that_are_no_numbers_are_told(method: str) -> None:
    module: Any = tiny_vit()
    module.blocks[0].mlp.fc1.weight.data.fill_(float("nan"))
    with pytest.raises(ModelError, match="not finite"):
        explain(method, wrap_model(module).trace(PHOTO))


def test_a_measure_needs_the_maps_own_photo() -> None:
    heat: Any = explain("rollout", traced())
    with pytest.raises(ValueError, match="The map is of photo, and the trace of other"):
        measure(heat, traced(OTHER))
    with pytest.raises(TypeError, match="One HeatMap was expected"):
        measure(None, traced())  # type: ignore[arg-type]


def test_a_class_that_is_not_there_is_told_by_every_method() -> None:
    for given in ({"target": 99}, {"against": "nonsense"}):
        with pytest.raises(ValueError, match="class"):
            explain("rollout", traced(), **given)


@pytest.mark.parametrize("long_side", [10**6, 10**9, 10**400])
def test_too_many_windows_are_refused_before_they_are_laid_out(long_side: int) -> None:
    with pytest.raises(ModelError, match="at most 100 are looked through"):
        SeparateLooks(wrap_model(tiny_vit()), PHOTO, long_side)


@pytest.mark.parametrize("wrong", [10**9, -1, float("nan"), "1", None])
def test_a_block_that_is_not_there_is_told_before_and_after_a_gradient_pass(wrong: Any) -> None:
    trace = traced()
    for _ in range(2):
        for read in (trace.values, lambda block: trace.features("output", block)):
            with pytest.raises(ValueError, match=r"block must be a whole number in 0\.\."):
                read(wrong)
        trace.gradients(0)


@pytest.mark.parametrize("keep", [3, None, "v", ["output", 5]])
def test_what_a_trace_cannot_keep_is_told(keep: Any) -> None:
    with pytest.raises(ValueError, match="A trace cannot keep"):
        wrap_model(tiny_vit()).trace(PHOTO, keep=keep)
