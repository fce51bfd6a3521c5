"""Attention flow: closed forms in exact rationals, networkx, bounds, pooling, cancelling."""

from __future__ import annotations

import time
from fractions import Fraction

import networkx
import numpy as np
import pytest
import torch
from torch import nn

from explainers import Cancelled, HeatMap, VisionModel, explain, load_photo, wrap_model
from explainers.methods import attention_flow
from explainers.methods.flow_network import Network
from explainers.trace import Trace
from tests.slow_vit import decision, slow_forward
from tests.tiny import VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())


def run(trace: Trace, **more: object) -> HeatMap:
    heat = explain("attention_flow", trace, **more)  # type: ignore[arg-type]
    assert isinstance(heat, HeatMap)
    return heat


def keys(heat: HeatMap) -> list[str]:
    return [note.key for note in heat.notes if note.key != "untrained_grid"]


# -- closed forms ----------------------------------------------------------------------------


def uniform_flow(n: int, depth: int) -> tuple[Fraction, Fraction]:
    """The flow from a node to itself and to another, where every row of A is 1/n."""
    one, half = Fraction(1), Fraction(1, 2)
    diagonal = {1: half + half / n}.get(depth, one)
    off = {1: half / n, 2: half, 3: 1 - Fraction(1, 2 * n)}.get(depth, one)
    return diagonal, off


@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_uniform_attention(n: int, depth: int) -> None:
    matrix = (np.full((n, n), 1 / n) + np.eye(n)) / 2
    diagonal, off = uniform_flow(n, depth)
    for source in range(n):
        network = Network.of([matrix] * depth, np.eye(n)[source])
        for node in range(n):
            wanted = diagonal if node == source else off
            assert network.flow_into(node) == pytest.approx(float(wanted), abs=1e-12)
    network = Network.of([matrix] * depth, np.full(n, 1 / n))  # average pooling's super-source
    straight = Fraction(1, n) + (n - 1) * min(Fraction(1, n), Fraction(1, 2 * n))
    wanted = float(straight) if depth == 1 else 1
    assert network.flow_into(0) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(("n", "size"), [(3, (8, 4)), (4, (12, 4)), (5, (8, 8)), (6, (4, 20))])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_model_that_looks_everywhere_alike(n: int, size: tuple[int, int], depth: int) -> None:
    module = look_alike(tiny_vit(size=size, depth=depth))
    trace = wrap_model(module).trace(PHOTO)
    diagonal, off = uniform_flow(n, depth)
    total = diagonal + (n - 1) * off
    heat = run(trace)
    np.testing.assert_allclose(heat.values, float(off / total), rtol=0, atol=1e-12)
    assert heat.prefix_share == pytest.approx(float(diagonal / total), abs=1e-12)
    assert heat.flat
    patch = run(trace, row=1)
    assert patch.values[0, 0] == pytest.approx(float(diagonal / total), abs=1e-12)
    assert heat.figures["flow_at_bound"] == (100 if depth >= 4 else 0)
    assert keys(heat) == (["flow_saturated"] if depth >= 4 else [])


def look_alike(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for block in module.blocks:  # queries of zero look everywhere alike
            block.attn.qkv.weight[:16] = 0
            block.attn.qkv.bias[:16] = 0
    return module


def test_identity_attention_keeps_everything_where_it_was() -> None:
    network = Network.of([np.eye(4)] * 3, np.eye(4)[2])
    assert [network.flow_into(node) for node in range(4)] == [0, 0, 1, 0]


# -- the slow twin ---------------------------------------------------------------------------


def slow_flow(matrices: list[np.ndarray], start: np.ndarray) -> np.ndarray:
    """networkx's max-flow, one sink after the other; matrices from the lowest block up."""
    n, top = len(start), len(matrices)
    graph = networkx.DiGraph()
    for i in range(n):
        graph.add_edge("source", (top, i), capacity=float(start[i]))
    for layer, matrix in enumerate(matrices, 1):
        for i in range(n):
            for j in range(n):
                graph.add_edge((layer, i), (layer - 1, j), capacity=float(matrix[i, j]))
    push = networkx.algorithms.flow.shortest_augmenting_path
    flows = [networkx.maximum_flow_value(graph, "source", (0, j), flow_func=push) for j in range(n)]
    return np.array(flows)


def residual(A: torch.Tensor) -> np.ndarray:
    matrix = A.mean(0).numpy()
    return (matrix + np.eye(len(matrix))) / 2


@pytest.mark.parametrize("variant", VARIANTS)
def test_flow_equals_networkx(variant: str) -> None:
    trace = wrap_model(tiny_vit(**VARIANTS[variant])).trace(PHOTO)
    module, p = trace.model.module, trace.prefix
    with torch.no_grad():
        matrices = [residual(A) for A in slow_forward(module, trace.pixels[0]).A]
    starts = [(None, decision(module, trace.tokens).numpy())]
    starts.append((p + 3, np.eye(trace.tokens)[p + 3]))
    for (row, start), lowest in zip(starts, (0, 1), strict=True):
        flows = slow_flow(matrices[lowest:], start)
        heat = run(trace, row=row, start_block=lowest)
        wanted = flows / flows.sum()
        np.testing.assert_allclose(heat.values, wanted[p:].reshape(trace.grid), rtol=0, atol=1e-10)
        assert heat.prefix_share == pytest.approx(float(wanted[:p].sum()), abs=1e-10)
        assert heat.values.sum() + heat.prefix_share == pytest.approx(1, abs=1e-12)
        bounds = np.minimum(1, matrices[lowest].sum(0))
        assert (flows <= bounds + 1e-9).all()
        share = 100 * np.mean(flows[p:] > bounds[p:] - 1e-9)
        assert heat.figures["flow_at_bound"] == pytest.approx(share)


def test_random_networks_equal_networkx() -> None:
    random = np.random.default_rng(0)
    for n, depth, sharpness in ((5, 2, 0.1), (8, 4, 0.05), (12, 3, 1.0)):
        matrices = [random.dirichlet(np.full(n, sharpness), size=n) for _ in range(depth)]
        start = random.dirichlet(np.ones(n))
        network = Network.of(matrices[::-1], start)
        found = [network.flow_into(node) for node in range(n)]
        np.testing.assert_allclose(found, slow_flow(matrices, start), rtol=0, atol=1e-10)


# -- pooling ---------------------------------------------------------------------------------


def slow_pooled(matrix: np.ndarray, groups: list[list[int]]) -> np.ndarray:
    """Keys summed, queries averaged, entry by entry."""
    return np.array(
        [
            [np.mean([sum(matrix[i, j] for j in keys) for i in queries]) for keys in groups]
            for queries in groups
        ]
    )


@pytest.mark.parametrize("variant", ["plain", "distilled", "average", "rectangle"])
def test_pooled_flow_equals_networkx(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_flow, "MOST_CELLS", 6)
    trace = wrap_model(tiny_vit(**VARIANTS[variant])).trace(PHOTO)
    module, p, (rows, columns) = trace.model.module, trace.prefix, trace.grid
    # 4×4 patches: 2×2 cells of 2×2; 3×5 patches: 2×3 cells, split as evenly as they can be.
    down, across = (2, 3) if variant == "rectangle" else (2, 2)
    cell = [(r * down // rows, c * across // columns) for r in range(rows) for c in range(columns)]
    places = [(a, b) for a in range(down) for b in range(across)]
    groups = [[i] for i in range(p)]
    groups += [[p + i for i, at in enumerate(cell) if at == place] for place in places]
    with torch.no_grad():
        slow = slow_forward(module, trace.pixels[0]).A
    matrices = [slow_pooled(residual(A), groups) for A in slow]
    r = decision(module, trace.tokens).numpy()
    flows = slow_flow(matrices, np.array([r[group].sum() for group in groups]))
    wanted = flows / flows.sum()
    heat = run(trace)
    for i, at in enumerate(cell):
        value = heat.values[i // columns, i % columns]
        assert value == pytest.approx(wanted[p + places.index(at)], abs=1e-10)
    assert heat.prefix_share == pytest.approx(float(wanted[:p].sum()), abs=1e-10)
    note = next(note for note in heat.notes if note.key == "flow_pooled")
    assert f"{rows}×{columns} patches were joined to {down}×{across} cells" in note


@pytest.mark.parametrize(
    ("size", "cells"), [((32, 32), (8, 8)), ((40, 40), (5, 5)), ((36, 60), (5, 8))]
)
def test_at_most_64_cells(size: tuple[int, int], cells: tuple[int, int]) -> None:
    trace = wrap_model(tiny_vit(size=size)).trace(PHOTO)
    heat = run(trace)
    assert heat.values.shape == trace.grid
    assert len(np.unique(heat.values)) <= cells[0] * cells[1] <= 64
    assert keys(heat)[-1:] == ([] if cells == trace.grid else ["flow_pooled"])
    steps = [np.flatnonzero(np.diff(heat.values, axis=axis).any(1 - axis)) + 1 for axis in (0, 1)]
    assert [len(s) + 1 for s in steps] == [*cells]


# -- at work ---------------------------------------------------------------------------------


def test_progress_counts_blocks_and_cells_and_may_cancel() -> None:
    trace = wrap_model(tiny_vit()).trace(PHOTO)
    seen: list[tuple[int, int]] = []
    run(trace, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 20) for i in range(20)]  # 3 blocks, 16 cells and CLS

    def stop(done: int, total: int) -> None:
        if done == 7:
            raise Cancelled

    with pytest.raises(Cancelled):
        run(trace, progress=stop)


def test_the_embedded_model_in_ten_seconds(embedded: VisionModel) -> None:
    trace = embedded.trace(PHOTO)
    run(trace, start_block=11)  # SciPy's import is not counted
    begun = time.process_time()
    heat = run(trace)
    assert time.process_time() - begun < 10
    assert np.isfinite(heat.values).all()


@pytest.mark.parametrize(
    ("settings", "message"), [({"row": 17}, r"0\.\.16"), ({"start_block": 3}, r"-3\.\.2")]
)
def test_bad_settings_name_the_range(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(wrap_model(tiny_vit()).trace(PHOTO), **settings)
