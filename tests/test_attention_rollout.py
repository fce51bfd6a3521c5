"""Attention and rollout: against whole matrices, and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from explainers import ModelError, wrap_model
from explainers.methods.rollout import step
from tests.method_runs import PHOTO, close, run, traced
from tests.slow_vit import decision, slow_forward
from tests.tiny import VARIANTS, tiny_vit

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
