"""Every design of timm with one grid of tokens: read exactly, or refused part by part."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from explainers import explain, wrap_model
from explainers.capture import Capture
from explainers.models.errors import ModelError
from explainers.models.sizes import at_size
from explainers.trace import Trace
from tests.families import FAMILIES, SIZES, build
from tests.family_maps import (
    EVERY,
    PHOTO,
    WITH,
    WITHOUT,
    formed,
    over_grid,
    traced,
    wrapped,
    written_out,
)

BIASED = ["BEiT", "BEiTv2", "SAM", "SAM, padded"] + [n for n in FAMILIES if "relative" in n]
"""Designs that add something to their scores."""


def own_maps(trace: Trace) -> list[Tensor]:
    with torch.no_grad():
        return over_grid(trace, formed(trace)[1])


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


@pytest.mark.parametrize("name", ["SigLIP", "SigLIP, prefix", "perception encoder", "NaFlexViT"])
def test_a_wrong_pool_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's own call is compared with what it made of it, as the blocks' are."""
    real = Capture._record

    def wrong(self: Capture, q: Any, k: Any, v: Any, mask: Any, scale: float, out: Any) -> None:
        real(self, q, k, v, mask, scale * (1.02 if q.shape[2] == 1 else 1), out)

    monkeypatch.setattr(Capture, "_record", wrong)
    refused = wrapped(name).supports("attention", row=0)
    assert "differs from what the model used" in str(refused.reason)
