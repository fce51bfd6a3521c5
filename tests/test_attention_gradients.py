"""Methods of attention with gradients or values, against whole matrices and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import HeatMap, ModelError, explain, load_photo, wrap_model
from explainers.trace import Trace
from tests.slow_vit import Slow, decision, norm, slow_forward
from tests.tiny import VARIANTS, tiny_encoder, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
CLASSIFIERS = [name for name in VARIANTS if name != "headless"]


def traced(variant: str = "plain", **more: object) -> Trace:
    return wrap_model(tiny_vit(**{**VARIANTS[variant], **more})).trace(PHOTO)


def run(name: str, trace: Trace, target: int | None = None, **more: object) -> np.ndarray:
    heat = explain(name, trace, target, **more)  # type: ignore[arg-type]
    assert isinstance(heat, HeatMap)
    return heat.values


def slow(trace: Trace, target: int, against: int | None) -> tuple[Slow, list[Tensor]]:
    """The written-out pass and ∂y/∂A of each block."""
    found = slow_forward(trace.model.module, trace.pixels[0])
    y = found.logits[target] - (0 if against is None else found.logits[against])
    return found, list(torch.autograd.grad(y, found.A, retain_graph=True))


def on_grid(trace: Trace, row: Tensor) -> np.ndarray:
    return row.detach()[trace.prefix :].reshape(trace.grid).numpy()


@pytest.mark.parametrize("variant", CLASSIFIERS)
@pytest.mark.parametrize("against", [None, 0])
def test_gradient_methods_equal_whole_matrices(variant: str, against: int | None) -> None:
    trace = traced(variant)
    found, gradients = slow(trace, 2, against)
    n = trace.tokens
    r = decision(trace.model.module, n)
    eye = torch.eye(n, dtype=torch.float64)
    relevance, rollout = eye, eye
    for A, G in zip(found.A, gradients, strict=True):
        relevance = relevance + (A * G).clamp(min=0).mean(0) @ relevance
        step = (A * G).mean(0).clamp(min=0) + eye
        rollout = step / step.sum(1, keepdim=True) @ rollout
    settings = {"against": against}
    for name, row in (
        ("relevance", r @ relevance),
        ("gradient_rollout", r @ rollout),
        ("gradient_x_attention", r @ (found.A[-1] * gradients[-1]).clamp(min=0).mean(0)),
    ):
        np.testing.assert_allclose(
            run(name, trace, 2, **settings), on_grid(trace, row), rtol=0, atol=1e-10
        )
    first = run("gradient_x_attention", trace, 2, block=0, **settings)
    row = r @ (found.A[0] * gradients[0]).clamp(min=0).mean(0)
    np.testing.assert_allclose(first, on_grid(trace, row), rtol=0, atol=1e-10)


def test_gradient_rollout_rows_sum_to_one() -> None:
    heat = explain("gradient_rollout", traced("registers"), 1)
    assert isinstance(heat, HeatMap)
    assert heat.prefix_share is not None
    assert heat.values.sum() + heat.prefix_share == pytest.approx(1)


def test_relevance_of_uniform_attention_with_gradients_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R = Π(I + J/N) = I + (2^L − 1)·J/N: with N = 5, L = 3, 1.4 beside the diagonal's 2.4."""
    from explainers.gradients import Gradients

    module = tiny_vit(size=(8, 8))
    with torch.no_grad():
        for block in module.blocks:
            block.attn.qkv.weight[:16] = 0
            block.attn.qkv.bias[:16] = 0
    monkeypatch.setattr(
        Gradients, "attention", lambda self, block, rows=slice(None): torch.ones(2, len(rows), 5)
    )
    values = run("relevance", wrap_model(module).trace(PHOTO), 1)
    np.testing.assert_allclose(values, np.full((2, 2), 1.4), atol=1e-12)


@pytest.mark.parametrize(
    "name", ["relevance", "gradient_rollout", "gradient_x_attention", "legrad", "daam"]
)
def test_a_class_without_gradient_gives_a_flat_map(name: str) -> None:
    module = tiny_vit()
    with torch.no_grad():
        module.head.weight[3] = 0
    heat = explain(name, wrap_model(module).trace(PHOTO), 3)
    assert isinstance(heat, HeatMap)
    assert heat.flat
    assert (heat.values == 0).all()


# -- LeGrad --------------------------------------------------------------------------------


def head(module: nn.Module, x: Tensor) -> Tensor:
    """The head's answer to the mean of all tokens (N, width)."""
    vector = norm(norm(x.mean(0), module.norm), module.fc_norm)
    answers = [
        vector @ h.weight.T + h.bias
        for h in (module.head, getattr(module, "head_dist", None))
        if h is not None
    ]
    return torch.stack(answers).mean(0)


@pytest.mark.parametrize("variant", CLASSIFIERS)
def test_legrad_equals_its_definition(variant: str) -> None:
    trace = traced(variant)
    found = slow_forward(trace.model.module, trace.pixels[0])
    total = torch.zeros(trace.tokens, dtype=torch.float64)
    for block, A in enumerate(found.A):
        answer = head(trace.model.module, found.stream[block + 1])
        (G,) = torch.autograd.grad(answer[2] - answer[4], A, retain_graph=True)
        total += G.clamp(min=0).mean((0, 1))
    values = run("legrad", trace, 2, against=4)
    np.testing.assert_allclose(values, on_grid(trace, total / 3), rtol=0, atol=1e-10)


def test_a_block_whose_values_do_not_reach_the_stream_adds_nothing_to_legrad() -> None:
    module = tiny_vit()
    trace = wrap_model(module).trace(PHOTO)
    whole = run("legrad", trace, 1)
    with torch.no_grad():
        module.blocks[2].attn.proj.weight.zero_()
    without = run("legrad", wrap_model(module).trace(PHOTO), 1)
    found = slow_forward(module, trace.pixels[0])
    total = torch.zeros(17, dtype=torch.float64)
    for block in range(2):
        (G,) = torch.autograd.grad(
            head(module, found.stream[block + 1])[1], found.A[block], retain_graph=True
        )
        total += G.clamp(min=0).mean((0, 1))
    np.testing.assert_allclose(without, on_grid(trace, total / 3), rtol=0, atol=1e-10)
    assert not np.allclose(whole, without)


def test_legrad_is_refused_where_no_one_knows_the_head() -> None:
    vit = wrap_model(tiny_encoder(), size=(16, 16))
    assert not vit.supports("legrad")
    assert vit.supports("relevance")
    with pytest.raises(ModelError, match="asked one by one"):
        explain("legrad", vit.trace(PHOTO))


# -- DAAM ----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_daam_equals_its_definition(variant: str) -> None:
    trace = traced(variant)
    module = trace.model.module
    found = slow_forward(module, trace.pixels[0])
    if variant == "headless":
        f = found.logits
        w = [float(value) ** 2 for value in f / f.norm()]
        y = sum(w[d] * f[d] for d in range(len(w)))
    else:
        y = found.logits[1]
    gradients = torch.autograd.grad(y, found.o, retain_graph=True)
    rows = decision(module, trace.tokens).nonzero().flatten().tolist()
    total = torch.zeros(trace.tokens, dtype=torch.float64)
    x = found
    for block in range(3):
        read = norm(x.stream[block], module.blocks[block].norm1)
        qkv = read @ module.blocks[block].attn.qkv.weight.T + module.blocks[block].attn.qkv.bias
        v = qkv.unflatten(1, (3, 2, -1))[:, 2]  # (N, H, D)
        for j in range(trace.tokens):
            m = sum(
                (x.A[block][h, i, j] * (gradients[block][h, i].clamp(min=0) @ v[j, h])).item()
                for i in rows
                for h in range(2)
            )
            total[j] += max(m, 0.0)
    values = run("daam", trace, None if variant == "headless" else 1)
    np.testing.assert_allclose(values, on_grid(trace, total), rtol=0, atol=1e-10)


# -- values --------------------------------------------------------------------------------


def slow_norms(module: nn.Module, found: Slow, block: int, head: int | None) -> Tensor:
    attn = module.blocks[block].attn
    read = norm(found.stream[block], module.blocks[block].norm1)
    v = (read @ attn.qkv.weight.T + attn.qkv.bias).unflatten(1, (3, 2, -1))[:, 2]  # (N, H, D)
    n = len(v)
    m = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            parts = [
                found.A[block][h, i, j] * (v[j, h] @ attn.proj.weight[:, 8 * h : 8 * h + 8].T)
                for h in (range(2) if head is None else [head])
            ]
            m[i, j] = sum(parts).norm()  # type: ignore[union-attr]
    return m.detach()


@pytest.mark.parametrize("variant", ["plain", "distilled", "average_registers", "headless"])
def test_value_norm_equals_its_definition(variant: str) -> None:
    trace = traced(variant)
    module = trace.model.module
    with torch.no_grad():
        found = slow_forward(module, trace.pixels[0])
    r = decision(module, trace.tokens)
    eye = torch.eye(trace.tokens, dtype=torch.float64)
    for head, index in (("all", None), (1, 1)):
        wanted = on_grid(trace, r @ slow_norms(module, found, 1, index))
        np.testing.assert_allclose(
            run("value_norm", trace, block=1, head=head), wanted, rtol=0, atol=1e-10
        )
        rolled = eye
        for block in range(3):
            step = slow_norms(module, found, block, index) + eye
            rolled = step / step.sum(1, keepdim=True) @ rolled
        np.testing.assert_allclose(
            run("value_norm", trace, head=head, over="rollout"),
            on_grid(trace, r @ rolled),
            rtol=0,
            atol=1e-10,
        )


def test_value_norm_without_output_weights_is_zero_and_doubles_with_the_values() -> None:
    module = tiny_vit()
    whole = run("value_norm", wrap_model(module).trace(PHOTO))
    with torch.no_grad():  # the last block's values and their bias, doubled
        module.blocks[2].attn.qkv.weight[32:] *= 2
        module.blocks[2].attn.qkv.bias[32:] *= 2
    np.testing.assert_allclose(run("value_norm", wrap_model(module).trace(PHOTO)), 2 * whole)
    with torch.no_grad():
        module.blocks[2].attn.proj.weight.zero_()
    assert (run("value_norm", wrap_model(module).trace(PHOTO)) == 0).all()


def test_one_gradient_pass_serves_all_these_methods() -> None:
    trace = traced()
    runs = []
    trace.model.module.register_forward_hook(lambda *_: runs.append(1))
    for name in ("relevance", "gradient_rollout", "gradient_x_attention", "daam", "saliency"):
        run(name, trace, 1)
    assert len(runs) == 1
    run("value_norm", trace)  # the gradient pass has kept the values
    assert len(runs) == 1
    run("legrad", trace, 1)
    assert len(runs) == 2


# -- attention pools -----------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [0, 2])
def test_an_attention_pool_starts_the_look(prefix: int) -> None:
    """r starts at the latent's row (no identity), then walks the blocks; a pool that leaves the
    prefix tokens out gives them nothing."""
    module = tiny_vit(global_pool="map", class_token=False, reg_tokens=prefix)
    trace = wrap_model(module).trace(PHOTO)
    assert trace.pool is not None
    pool = trace.pool.rows(slice(0, 1))[0, :, 0]  # (H, patches)
    start = torch.cat([torch.zeros(prefix, dtype=torch.float64), pool.mean(0)])
    eye = torch.eye(trace.tokens, dtype=torch.float64)
    rolled, relevance = eye, eye
    gradients = trace.gradients(1)
    for block in range(3):
        A = trace.attention(block)
        rolled = (A.mean(0) + eye) / 2 @ rolled
        G = gradients.attention(block)
        relevance = relevance + (A * G).clamp(min=0).mean(0) @ relevance
    np.testing.assert_allclose(run("rollout", trace), on_grid(trace, start @ rolled), atol=1e-12)
    start = (pool * gradients.attention(-1)[:, 0]).clamp(min=0).mean(0)
    start = torch.cat([torch.zeros(prefix, dtype=torch.float64), start])
    np.testing.assert_allclose(
        run("relevance", trace, 1), on_grid(trace, start @ relevance), atol=1e-12
    )
    assert run("legrad", trace, 1).max() > 0
