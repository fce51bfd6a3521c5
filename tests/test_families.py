"""Every design of timm with one grid of tokens: read exactly, or refused part by part."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from explainers import explain, methods, wrap_model
from explainers.capture import Capture
from explainers.gradients import class_score, gradient_pass
from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.sizes import at_size
from explainers.models.vision_model import VisionModel
from explainers.step_gradients import step_by_step
from explainers.trace import Trace
from tests.families import FAMILIES, SIZES, build
from tests.tiny import tiny_photo_array

PHOTO = Photo(tiny_photo_array(), "photo", ())
WITHOUT = {"two attentions side by side", "differences", "parallel differences"}
"""Designs without one attention map a block."""
HEAVY = {"hybrid R26", "hybrid R50", "ViTamin"}
"""Those whose embedding is a network of its own, with fixed widths: a small hybrid is in CI."""


def _cases(names: Iterable[str]) -> list[Any]:
    return [pytest.param(n, marks=pytest.mark.long) if n in HEAVY else n for n in names]


EVERY = _cases(FAMILIES)
WITH = _cases(name for name in FAMILIES if name not in WITHOUT)
BIASED = ["BEiT", "BEiTv2", "SAM", "SAM, padded"] + [n for n in FAMILIES if "relative" in n]
"""Designs that add something to their scores."""
FEW: dict[str, dict[str, Any]] = {
    "rise": {"masks": 4},
    "kernel_shap": {"samples": 40},
    "lime": {"samples": 20},
    "gradient_shap": {"samples": 2},
    "smoothgrad": {"samples": 2},
    "integrated_gradients": {"steps": 8},
}


def wrapped(name: str) -> VisionModel:
    return wrap_model(build(name), size=SIZES.get(name))


@cache
def traced(name: str) -> Trace:
    return wrapped(name).trace(PHOTO)


def written_out(module: nn.Module) -> nn.Module:
    """A copy that forms its attention step by step, by its own code."""
    twin = copy.deepcopy(module)
    for part in twin.modules():
        if hasattr(part, "fused_attn"):
            part.fused_attn = False
    return twin


def formed(trace: Trace) -> tuple[Tensor, list[Tensor]]:
    """The answer, and each block's attention as the model forms it itself before its dropout."""
    module = written_out(trace.model.module)
    maps: list[Tensor] = []
    for block in core_of(module).blocks:
        owner = getattr(block, "attn", block)
        owner.attn_drop.register_forward_pre_hook(lambda _, given: maps.append(given[0]))
    return module(trace.pixels.clone().requires_grad_(torch.is_grad_enabled())), maps


def core_of(module: nn.Module) -> Any:
    return getattr(module, "encoder", module)


def over_grid(trace: Trace, maps: list[Tensor]) -> list[Tensor]:
    """Maps (H, N, N) of each block, those of windows put on the grid."""
    whole = []
    for block, found in zip(core_of(trace.model.module).blocks, maps, strict=True):
        found = found.reshape(-1, trace.heads, *found.shape[-2:])
        side = getattr(block, "window_size", 0)
        whole.append(from_windows(found, side, trace.grid) if side else found[0])
    return whole


def own_maps(trace: Trace) -> list[Tensor]:
    with torch.no_grad():
        return over_grid(trace, formed(trace)[1])


def from_windows(found: Tensor, side: int, grid: tuple[int, int]) -> Tensor:
    """Attention inside windows (W, H, n, n) as attention over the grid (H, h·w, h·w)."""
    across = -(-grid[1] // side)
    places = {}
    for row in range(grid[0]):
        for column in range(grid[1]):
            window = row // side * across + column // side
            places[row * grid[1] + column] = window, row % side * side + column % side
    whole = torch.zeros(found.shape[1], len(places), len(places), dtype=found.dtype)
    for i, (window, query) in places.items():
        for j, (other, key) in places.items():
            if window == other:
                whole[:, i, j] = found[window, :, query, key]
    return whole


def pool_row(trace: Trace) -> Tensor:
    """An attention pool's row over all tokens, from its definition; the mean over heads."""
    module, seen = trace.model.module, []
    pool = module.attn_pool
    hook = pool.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        module(trace.pixels)
        hook.remove()
        tokens = seen[0]  # (1, N, width), perhaps without the prefix
        q = pool.q(pool.latent)[0].reshape(pool.num_heads, 1, -1)
        k = pool.kv(tokens)[0].reshape(len(tokens[0]), 2, pool.num_heads, -1)[:, 0].transpose(0, 1)
        q, k = pool.q_norm(q), pool.k_norm(k)
        row = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)[:, 0].mean(0)
    return torch.cat([row.new_zeros(trace.tokens - len(row)), row])


def own_decision(trace: Trace) -> Tensor:
    """The weights (N,) of the rows that feed the head, from the model's own settings."""
    module = trace.model.module
    kind = "distilled" if hasattr(module, "head_dist") else module.global_pool
    row = torch.zeros(trace.tokens, dtype=torch.float64)
    if kind == "map":
        return pool_row(trace)
    if kind == "token":
        row[0] = 1
    elif kind == "distilled":
        row[:2] = 0.5
    else:
        assert kind == "avg"
        row[0 if getattr(module, "pool_include_prefix", False) else trace.prefix :] = 1
        row /= row.sum()
    return row


@pytest.mark.parametrize("name", EVERY)
def test_tracing_changes_nothing_and_is_accepted(name: str) -> None:
    vit = wrapped(name)
    trace = vit.trace(PHOTO)
    with torch.no_grad():
        plain = vit.module(trace.pixels)
    if trace.logits is not None:
        assert torch.equal(trace.logits, plain)
    assert bool(vit.attention_check) is (name not in WITHOUT)
    assert len(trace.calls) == (0 if name in WITHOUT else trace.depth)
    assert len(vit.adapter.prefix_names) == trace.prefix
    if name in WITHOUT:
        refused = vit.supports("attention", row=0)
        assert "CAM, gradient and hiding methods work" in str(refused.reason)


@pytest.mark.parametrize("name", WITH)
def test_rows_are_the_models_own_attention(name: str) -> None:
    trace = traced(name)
    for block, own in enumerate(own_maps(trace)):
        assert trace.attention(block).shape == own.shape == (trace.heads, *[trace.tokens] * 2)
        torch.testing.assert_close(trace.attention(block), own, rtol=0, atol=1e-10)
        some = trace.attention(block, head=1, rows=[3, 0])
        torch.testing.assert_close(some, own[1, [3, 0]], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", WITH)
def test_attention_written_out_is_read_the_same(name: str) -> None:
    """Where the model calls softmax itself: the same rows, accepted, the answer unchanged."""
    module = written_out(build(name))
    vit = wrap_model(module, size=SIZES.get(name))
    trace = vit.trace(PHOTO)
    assert vit.attention_check, vit.attention_check
    with torch.no_grad():
        plain = module(trace.pixels)
    assert trace.logits is None or torch.equal(trace.logits, plain)
    for block in range(trace.depth):
        torch.testing.assert_close(
            trace.attention(block), traced(name).attention(block), rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("name", WITH)
def test_rollout_is_the_explicit_product(name: str) -> None:
    trace = traced(name)
    if not trace.model.supports("rollout"):
        assert trace.model.adapter.pooling == "other"
        return
    product = torch.eye(trace.tokens, dtype=torch.float64)
    for own in own_maps(trace):
        mean = own.mean(0)  # its rows sum to 1, or to less where some falls on padding
        step = mean + torch.eye(trace.tokens, dtype=torch.float64)
        product = step / step.sum(1, keepdim=True) @ product
    expected = (own_decision(trace) @ product)[trace.prefix :].reshape(trace.grid)
    found = torch.from_numpy(explain("rollout", trace).values.copy())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


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
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions_are_accepted(name: str, dtype: torch.dtype) -> None:
    vit = wrap_model(build(name, dtype), size=SIZES.get(name))
    trace = vit.trace(PHOTO)
    assert bool(vit.attention_check) is (name not in WITHOUT), vit.attention_check
    assert trace.features("output", 1 % trace.depth).isfinite().all()


@pytest.mark.parametrize("name", EVERY)
def test_another_size_has_its_own_grid_or_is_refused(name: str) -> None:
    vit = wrapped(name)
    height, width = vit.adapter.patch
    if name == "Qwen3, encoder":  # its projector makes one token of 2×2
        with pytest.raises(ModelError, match="must be divisible by merge_size"):
            at_size(vit, (3 * height, 6 * width))
    wide = at_size(vit, (4 * height, 6 * width))
    trace = wide.trace(PHOTO)
    assert trace.grid == (4, 6)
    assert bool(wide.attention_check) is (name not in WITHOUT), wide.attention_check


def test_an_answer_for_every_token_is_no_answer_of_classes() -> None:
    vit = wrap_model(build("q k norm", global_pool=""))
    trace = vit.trace(PHOTO)
    assert trace.logits is None
    assert vit.classes == 0
    assert [bool(vit.supports(m)) for m in ("saliency", "rollout", "feature_pca")] == [0, 0, 1]
    assert vit.supports("attention", row=0)


@pytest.mark.parametrize("name", WITH)
def test_a_wrong_scale_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Capture._record

    def wrong(self: Capture, q: Any, k: Any, v: Any, mask: Any, scale: float, out: Any) -> None:
        real(self, q, k, v, mask, scale * 1.02, out)

    monkeypatch.setattr(Capture, "_record", wrong)
    refused = wrapped(name).supports("attention", row=0)
    assert "differs from what the model used" in str(refused.reason)


@pytest.mark.parametrize("name", BIASED)
def test_a_missing_bias_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Capture._record

    def wrong(self: Capture, q: Any, k: Any, v: Any, mask: Any, scale: float, out: Any) -> None:
        assert mask is not None
        real(self, q, k, v, None, scale, out)

    monkeypatch.setattr(Capture, "_record", wrong)
    refused = wrapped(name).supports("attention", row=0)
    assert "differs from what the model used" in str(refused.reason)


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


# -- filters and positions -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["NaFlexViT", "Gemma 4", "SAM", "Qwen3"])
def test_filters_are_what_the_embedding_multiplies_with(name: str) -> None:
    """A change of one pixel changes its patch's token by the filters' weights there."""
    trace = traced(name)
    adapter = trace.model.adapter
    filters = adapter.patch_filters()  # (D, 3, height, width)
    (height, width), (rows, columns) = adapter.patch, trace.grid
    at = 1, 2
    changed = trace.pixels.clone()
    changed[0, 2, at[0] * height + 1, at[1] * width + 3] += 1e-3
    embedding = (
        getattr(getattr(trace.model.module, "encoder", trace.model.module), "patch_embed", None)
        or trace.model.module.embeds
    )
    with torch.no_grad():
        both = [embedding(pixels) for pixels in (trace.pixels, changed)]
    before, after = (t[0] if isinstance(t, tuple) else t for t in both)
    moved = (after - before).reshape(-1, len(filters))[-rows * columns :] / 1e-3
    factor = 2.0 if name == "Gemma 4" else 1.0  # its embedding scales pixels to −1..1 itself
    index = at[0] * columns + at[1]
    torch.testing.assert_close(moved[index], factor * filters[:, 2, 1, 3], rtol=1e-6, atol=1e-9)
    moved[index] = 0
    assert moved.abs().max() == 0


@pytest.mark.parametrize("name", ["hybrid", *sorted(HEAVY)])
def test_a_hybrids_filters_are_its_stems(name: str) -> None:
    vit = traced(name).model
    stem = next(m for m in vit.module.patch_embed.modules() if isinstance(m, nn.Conv2d))
    assert stem.in_channels == 3
    assert torch.equal(vit.adapter.patch_filters(), stem.weight)


@pytest.mark.parametrize(
    "name", ["DINOv3", "BEiT", "relative positions", "DeepSeek", "RoPE, gate", "no positions"]
)
def test_models_without_learned_positions_say_so(name: str) -> None:
    adapter = traced(name).model.adapter
    support = adapter.positions_support()
    assert "learns no position embedding" in str(support.reason)
    with pytest.raises(ModelError, match="learns no position embedding"):
        adapter.patch_positions()


@pytest.mark.parametrize("name", ["NaFlexViT", "NaFlexViT, factorised", "Qwen3", "SAM", "EVA-02"])
def test_positions_are_those_of_the_stored_grid(name: str) -> None:
    adapter = traced(name).model.adapter
    rows, columns = adapter.position_grid()
    assert adapter.patch_positions().shape[0] == rows * columns


@pytest.mark.parametrize("name", ["SigLIP", "SigLIP, prefix", "perception encoder", "NaFlexViT"])
def test_a_wrong_pool_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's own call is compared with what it made of it, as the blocks' are."""
    real = Capture._record

    def wrong(self: Capture, q: Any, k: Any, v: Any, mask: Any, scale: float, out: Any) -> None:
        real(self, q, k, v, mask, scale * (1.02 if q.shape[2] == 1 else 1), out)

    monkeypatch.setattr(Capture, "_record", wrong)
    refused = wrapped(name).supports("attention", row=0)
    assert "differs from what the model used" in str(refused.reason)
