"""Sanity checks: a planted fraud is found out, and the model is left alone."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import pytest
import torch
from torch import nn

from explainers import Cancelled, VisionModel, load_photo, registry, wrap_model
from explainers.heatmap import Finding
from explainers.measures import sanity
from explainers.measures.cascade import _blocks, cascade
from explainers.registry import Method
from explainers.trace import Trace
from tests.measured import PHOTO, passes
from tests.module_state import state
from tests.tiny import tiny_encoder, tiny_photo_array, tiny_vit


def edges(trace: Trace, objective: object, progress: object) -> Finding:
    """The photo's own edges: a fraud that no model is asked for."""
    grey = trace.pixels[0].mean(0)
    steps = torch.zeros_like(grey)
    steps[1:] += (grey[1:] - grey[:-1]).abs()
    steps[:, 1:] += (grey[:, 1:] - grey[:, :-1]).abs()
    return Finding(steps.numpy(), kind="pixels")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> str:
    method = Method(
        name="edges",
        title="Edges",
        meaning="",
        question="counted",
        class_specific=True,
        signed=False,
        needs=("class",),
        cost=lambda parameters, patches: 0,
        paper="",
        bibtex="",
        limits="",
        function=edges,
    )
    monkeypatch.setitem(registry._METHODS, "edges", method)
    return "edges"


def traces(model: VisionModel, count: int = 3) -> list[Trace]:
    return [model.trace(load_photo(tiny_photo_array(seed=seed))) for seed in range(count)]


def test_an_edge_detector_is_found_out(planted: str) -> None:
    found = sanity(planted, traces(wrap_model(tiny_vit())))
    assert found.other_class == 1
    assert [value for _, value in found.weights] == [1] * 3
    assert found.weights_verdict.key == "sanity_weights_same"
    assert "does not depend on the weights" in found.weights_verdict
    assert found.class_verdict is not None
    assert found.class_verdict.key == "sanity_class_same"


def test_rollout_does_not_depend_on_the_class_but_on_the_weights() -> None:
    found = sanity("rollout", traces(wrap_model(tiny_vit())))
    assert found.other_class == 1
    assert found.class_verdict is not None
    assert "does not depend on the class" in found.class_verdict
    assert found.weights_verdict.key == "sanity_weights_differ"
    assert found.photos == 3


@pytest.mark.parametrize("make", [tiny_vit, tiny_encoder])
def test_a_gradient_map_depends_on_both(make) -> None:  # type: ignore[no-untyped-def]
    found = sanity("input_x_gradient", traces(wrap_model(make(), size=(16, 16))))
    assert found.class_verdict is not None
    assert found.class_verdict.key == "sanity_class_differs"
    assert found.weights_verdict.key == "sanity_weights_differ"
    assert [blocks for blocks, _ in found.weights] == [1, 2, 3]


def test_hardly_is_said_in_between() -> None:
    from explainers.measures.sanity import Sanity

    found = Sanity("x", 1, 0.9, ((1, 0.99), (2, 0.85)))
    assert found.class_verdict is not None
    assert "hardly depends on the class" in found.class_verdict
    assert "hardly depends on the weights" in found.weights_verdict


def test_sanity_is_computed_once_and_leaves_the_model_alone(passes: list[int]) -> None:
    model = wrap_model(tiny_vit())
    seen, before = traces(model), state(model.module)
    random_state = torch.get_rng_state()
    first = sanity("saliency", seen, resolution="patch")
    assert state(model.module) == before
    assert torch.equal(torch.get_rng_state(), random_state)
    passes.clear()
    assert sanity("saliency", seen, resolution="patch") is first
    assert not passes
    assert sanity("saliency", seen[:1], resolution="patch").photos == 1
    assert passes
    again = wrap_model(tiny_vit())
    assert sanity("saliency", traces(again), resolution="patch") == first


def test_sanity_can_be_stopped() -> None:
    model = wrap_model(tiny_vit())
    before = state(model.module)
    ticks: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        ticks.append((done, total))
        if done > total / 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        sanity("occlusion", traces(model), stop)
    assert [done for done, _ in ticks] == sorted(done for done, _ in ticks)
    assert len({total for _, total in ticks}) == 1
    assert state(model.module) == before


def test_sanity_without_classes() -> None:
    found = sanity("rollout", wrap_model(tiny_vit(num_classes=0)).trace(PHOTO))
    assert found.other_class is None
    assert found.class_verdict is None
    assert len(found.weights) == 3


def test_a_slow_method_is_asked_after_quarters_of_the_blocks() -> None:
    found = sanity("occlusion", traces(wrap_model(tiny_vit(depth=6, size=(24, 24))), 1))
    assert [blocks for blocks, _ in found.weights] == [2, 3, 4, 6]


@pytest.mark.parametrize(
    "module",
    [tiny_vit(), tiny_vit(depth=1), tiny_encoder(), tiny_encoder(norm_first=False)],
    ids=["timm", "one block", "encoder", "post-LN"],
)
def test_the_cascade_redraws_whole_blocks_from_the_top(module: nn.Module) -> None:
    vit = wrap_model(module, size=(16, 16))
    layers = module.blocks if hasattr(module, "blocks") else module.encoder.layers
    depth = len(layers)
    if depth > 1:
        assert _blocks(vit) == list(layers)
    own = {name: p.detach().clone() for name, p in module.named_parameters()}
    place = {id(p): number for number, layer in enumerate(layers) for p in layer.parameters()}
    block_of = {name: place.get(id(p), -1) for name, p in module.named_parameters()}
    for done, private in cascade(vit, depth):
        assert private.module is not module
        for name, parameter in private.module.named_parameters():
            now = parameter.detach()
            changed = not torch.equal(now, own[name])
            assert changed == (block_of[name] >= depth - done), name
            if changed and now.numel() > 100:
                assert float(now.mean()) == pytest.approx(float(own[name].mean()), abs=0.1)
                assert float(now.std()) == pytest.approx(float(own[name].std()), rel=0.3)
    assert all(torch.equal(p, own[name]) for name, p in module.named_parameters())
