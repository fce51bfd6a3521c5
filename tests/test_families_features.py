"""Features, values and gradients of timm's designs are autograd's; every method runs or says no."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from explainers import explain, methods
from explainers.gradients import class_score, gradient_pass
from explainers.models.errors import ModelError
from explainers.step_gradients import step_by_step
from tests.family_maps import EVERY, WITH, core_of, formed, over_grid, traced

FEW: dict[str, dict[str, Any]] = {
    "rise": {"masks": 4},
    "kernel_shap": {"samples": 40},
    "lime": {"samples": 20},
    "gradient_shap": {"samples": 2},
    "smoothgrad": {"samples": 2},
    "integrated_gradients": {"steps": 8},
}


@pytest.mark.parametrize("name", EVERY)
def test_features_are_what_enters_and_leaves_each_block(name: str) -> None:
    """Seen by the weight of whatever reads the stream, held against hooks on the modules."""
    trace = traced(name)
    module, parts = trace.model.module, trace.model.adapter.blocks
    core = core_of(module)
    seen: dict[tuple[str, int], Tensor] = {}

    def keep(places: list[tuple[str, int]], part: nn.Module, given: Any, output: Tensor) -> None:
        for place, tensor in zip(places, (given[0], output), strict=True):
            seen[place] = tensor.reshape(-1, trace.tokens, tensor.shape[-1])[0]

    hooks = []
    for i, block in enumerate(core.blocks):
        hooks.append(block.register_forward_hook(partial(keep, [("input", i), ("output", i)])))
        reader = parts[i].norm1
        assert reader is not None
        if isinstance(reader, nn.Linear):  # it reads the stream as it is
            places = [("norm1", i), ("", i)]
            hooks.append(block.register_forward_hook(partial(keep, places)))
        else:
            hooks.append(reader.register_forward_hook(partial(keep, [("", i), ("norm1", i)])))
    with torch.no_grad():
        module(trace.pixels)
    for hook in hooks:
        hook.remove()
    for i in range(trace.depth):
        for place in ("input", "norm1", "output"):
            assert torch.equal(trace.features(place, i), seen[place, i]), (place, i)


@pytest.mark.parametrize("name", EVERY)
def test_gradients_of_the_features_are_autograds(name: str) -> None:
    """The last block's output, in the gradient pass: held against a hook that keeps its graph."""
    trace = traced(name)
    if not trace.model.classes:
        return
    module = trace.model.module
    core = core_of(module)
    outputs: list[Tensor] = []
    hook = core.blocks[-1].register_forward_hook(lambda _, given, output: outputs.append(output))
    with torch.enable_grad():
        answer = module(trace.pixels.clone().requires_grad_())
    hook.remove()
    (expected,) = torch.autograd.grad(answer[0, 1], outputs)
    found = trace.gradients(1).tensors["output"]
    expected = expected.reshape(found[1].shape)
    torch.testing.assert_close(found[1], expected, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", WITH)
def test_attention_times_its_gradient_is_autograds(name: str) -> None:
    """A ⊙ ∂y/∂A from v and ∂y/∂o, held against the graph of the attention formed explicitly."""
    trace = traced(name)
    if not trace.model.classes:
        return
    with torch.enable_grad():
        answer, maps = formed(trace)
    found = torch.autograd.grad(answer[0, 1], maps, allow_unused=True)
    slopes = [torch.zeros_like(a) if g is None else g for a, g in zip(maps, found, strict=True)]
    products = over_grid(trace, [a.detach() * g for a, g in zip(maps, slopes, strict=True)])
    gradients = trace.gradients(1)
    for block, expected in enumerate(products):
        product = trace.attention(block) * gradients.attention(block)
        torch.testing.assert_close(product, expected, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", WITH)
def test_values_are_what_the_heads_hand_on(name: str) -> None:
    """A v of each head, merged, is what the projection is given (where nothing stands between)."""
    trace = traced(name)
    adapter, module = trace.model.adapter, trace.model.module
    if not adapter.merge_support():
        assert "cannot be told apart" in str(trace.model.supports("value_norm").reason)
        return
    given: list[Tensor] = []
    hooks = [
        parts.projection.register_forward_pre_hook(lambda _, read: given.append(read[0]))
        for parts in adapter.blocks
    ]
    with torch.no_grad():
        module(trace.pixels)
    for hook in hooks:
        hook.remove()
    for block, read in enumerate(given):
        handed = trace.attention(block) @ trace.values(block)  # (H, N, E)
        merged = handed.transpose(0, 1).flatten(1)  # (N, H·E)
        weight = adapter.output_weight(block)
        assert weight.shape[1] == merged.shape[1]
        side = getattr(core_of(module).blocks[block], "window_size", 0)
        if not side:
            expected = read[0, :, : merged.shape[1]]
            torch.testing.assert_close(merged, expected, rtol=0, atol=1e-10)
        elif trace.grid == (side, 2 * side):  # two windows side by side, no padding
            expected = torch.cat([w.unflatten(0, (side, side)) for w in read], 1)
            expected = expected.flatten(0, 1)
            torch.testing.assert_close(merged, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", EVERY)
def test_every_method_runs_or_was_refused_beforehand(name: str) -> None:
    trace = traced(name)
    for method in methods():
        support = trace.model.supports(method)
        if not support:
            with pytest.raises(ModelError) as caught:
                explain(method, trace)
            assert str(caught.value) == str(support.reason)
            continue
        values = explain(method, trace, **FEW.get(method, {})).values
        assert values.shape[:2] in (trace.grid, tuple(trace.pixels.shape[-2:])), method


@pytest.mark.parametrize("name", EVERY)
def test_the_head_asked_about_a_vector_is_the_models_own(name: str) -> None:
    """With all tokens alike, pooling changes nothing: the head's own path gives the answer."""
    trace = traced(name)
    adapter, module = trace.model.adapter, trace.model.module
    if not adapter.readout_support():
        assert not trace.model.supports("legrad")
        return
    width = trace.features("output", 0).shape[1]
    stream = torch.randn(1, 1, width, generator=torch.Generator().manual_seed(0)).double()
    stream = stream.expand(1, trace.tokens, width)
    core = core_of(module)
    with torch.no_grad():
        ended = core.norm(stream) if hasattr(core, "norm") else stream
        if name == "Gemma 4, pooled":
            ended = ended * width**0.5
        expected = module.forward_head(ended)
        found = adapter.read_out(stream)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", EVERY)
def test_giving_all_tokens_is_giving_the_photo(name: str) -> None:
    trace = traced(name)
    vit = trace.model
    keep = torch.arange(trace.tokens - trace.prefix)[None]
    if not vit.adapter.removal_support():
        with pytest.raises(ModelError, match="tokens cannot be taken out"):
            vit.logits(trace.pixels, keep)
        return
    with torch.no_grad():
        assert torch.equal(vit.logits(trace.pixels, keep), vit.module(trace.pixels))


@pytest.mark.parametrize("name", EVERY)
def test_the_gradient_pass_in_steps_gives_the_same(name: str) -> None:
    trace = traced(name)
    stages = trace.model.adapter.stages()
    if stages is None or not trace.model.classes:
        return
    score = class_score(1, None)
    whole = gradient_pass(trace.model, trace.pixels, score)
    steps = step_by_step(trace.model, stages, trace.pixels, score)
    torch.testing.assert_close(steps.pixels, whole.pixels, rtol=1e-8, atol=1e-12)
    for kind in ("values", "outputs"):
        for a, b in zip(getattr(steps, kind), getattr(whole, kind), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-12)
    for place in ("norm1", "output"):
        for a, b in zip(steps.tensors[place], whole.tensors[place], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-12)
