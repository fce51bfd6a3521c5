"""Attention inside windows, shown on the true grid: every family looks where its windows reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers import ModelError, explain, load_photo
from explainers.models.windows import lattices, unrolled, windows
from explainers.trace import Trace
from explainers.views.cost import shape_of
from explainers.views.heads import head_figures
from tests.grid_families import FAMILIES, grid_model
from tests.grid_looks import PHOTO, wrapped
from tests.tiny import tiny_photo_array

OTHER = load_photo(tiny_photo_array(seed=9))
NOTHING = 1e-20  # Swin's mask is −100, not −∞


# -- every family ------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_accepted_whole_and_leave_the_answer_as_it_is(family: str) -> None:
    vit = wrapped(family)
    trace = vit.trace(PHOTO)
    assert vit.attention_check, vit.attention_check.reason  # A·v is what the projection received
    with torch.no_grad():
        assert torch.equal(trace.logits, vit.module(trace.pixels))
    for block in range(trace.depth):
        rows, columns = trace.block_grids(block)
        found = trace.attention(block)
        cells = [trace.prefix + h * w for h, w in (rows, columns)]
        assert list(found.shape[1:]) == cells
        sums = found.sum(-1)
        if "padded" in family:  # what falls on padding is missing
            assert (sums <= 1 + 1e-12).all()
        else:
            torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-12)
        some = [0, cells[0] // 2, cells[0] - 1]
        picked = trace.attention(block, head=0, rows=some)
        torch.testing.assert_close(picked, found[0, some], rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", ["swin", "swin_v2", "maxvit", "twins", "hiera", "pit"])
def test_a_batch_of_windows_equals_its_single_photos(family: str) -> None:
    vit = wrapped(family)
    batch = vit.trace([PHOTO, OTHER])
    for number, photo in enumerate((PHOTO, OTHER)):
        single = vit.trace(photo)
        for block in range(single.depth):
            torch.testing.assert_close(
                batch[number].attention(block), single.attention(block), rtol=0, atol=1e-10
            )


def reached(mix: Any, cells: Tensor) -> Tensor:
    """Which cells (i, j) are such that output cell i moves with input cell j; cells (n, C)."""
    cells = cells.clone().requires_grad_()
    out = mix(cells)
    moved = [torch.autograd.grad(row.sum(), cells, retain_graph=True)[0] for row in out]
    return torch.stack(moved).abs().amax(-1) > NOTHING


def looks(trace: Trace, block: int) -> Tensor:
    return trace.attention(block).amax(0) > NOTHING


@pytest.mark.parametrize("family", ["swin", "swin_padded", "swin_v2", "swin_v2_cr"])
def test_swin_looks_where_its_own_windows_reach(family: str) -> None:
    vit = wrapped(family)
    trace, module = vit.trace(PHOTO), vit.module
    stages: Any = getattr(module, "layers", None) or module.stages
    blocks = [block for stage in stages for block in stage.blocks]
    for number, block in enumerate(blocks):
        (h, w), width = trace.block_grids(number)[0], block.norm1.weight.shape[0]
        mix = getattr(block, "_attn", None) or block._shifted_window_attn
        cells = torch.randn(h * w, width, dtype=torch.float64)
        wanted = reached(
            lambda x, mix=mix, h=h, w=w: mix(x.reshape(1, h, w, -1)).flatten(0, 2), cells
        )
        assert torch.equal(looks(trace, number), wanted)


@pytest.mark.parametrize("family", ["maxvit", "maxvit_planes"])
def test_maxvit_looks_where_its_windows_and_lattices_reach(family: str) -> None:
    vit = wrapped(family)
    trace = vit.trace(PHOTO)
    parts = [p for p in vit.module.modules() if hasattr(p, "_partition_attn")]
    planes = family == "maxvit_planes"
    for number, part in enumerate(parts):
        h, w = trace.block_grids(number)[0]
        cells = torch.randn(h * w, part.norm1.weight.shape[0], dtype=torch.float64)

        def mix(x: Tensor, part: Any = part, h: int = h, w: int = w) -> Tensor:
            grid = x.reshape(1, h, w, -1)
            if planes:
                return part._partition_attn(grid.permute(0, 3, 1, 2)).flatten(2)[0].T
            return part._partition_attn(grid).flatten(0, 2)

        assert torch.equal(looks(trace, number), reached(mix, cells))


@pytest.mark.parametrize("family", ["twins", "twins_padded", "pvt_v2"])
def test_coarser_keys_are_the_cells_that_the_query_reaches(family: str) -> None:
    """A key cell of a coarser grid stands for the square of cells it was made of."""
    vit = wrapped(family)
    trace = vit.trace(PHOTO)
    layers = [m for m in vit.module.modules() if hasattr(m, "proj") and hasattr(m, "attn_drop")]
    for number, layer in enumerate(layers):
        (h, w), (rows, columns) = trace.block_grids(number)
        cells = torch.randn(h * w, layer.proj.weight.shape[0], dtype=torch.float64)
        wanted = reached(lambda x, at=layer, h=h, w=w: at(x[None], (h, w))[0], cells)
        found = looks(trace, number).double().reshape(h * w, rows, columns)
        fine = F.interpolate(found[None], (h, w), mode="nearest")[0].flatten(1) > 0
        own = torch.eye(h * w, dtype=torch.bool)  # the query itself is a cell that counts
        assert torch.equal(fine | own, wanted | own)


def test_mask_units_are_in_the_order_that_hiera_itself_undoes() -> None:
    module: Any = grid_model("hiera")
    grid, strides = (16, 16), [(2, 2)] * 3
    for block in (0, 1, 2, 3):  # before each of the pools, all of them in block 1, 3 and 4
        schedule, size = module.reroll.schedule[block]
        assert tuple(size) == grid
        order = unrolled(grid, schedule)
        back = module.reroll(order.T[None].double(), block)  # (1, h, w, 1)
        assert back.flatten().tolist() == list(range(grid[0] * grid[1]))
        if block in module.stage_ends[: module.q_pool]:
            grid, strides = (grid[0] // 2, grid[1] // 2), strides[1:]


def test_tables_of_cells() -> None:
    plain = windows((4, 4), (2, 2))
    assert plain.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert windows((4, 4), (2, 2), (1, 1))[0].tolist() == [5, 6, 9, 10]
    assert windows((4, 4), (2, 2), (1, 1))[3].tolist() == [15, 12, 3, 0]
    assert windows((3, 3), (2, 2))[3].tolist() == [8, -1, -1, -1]
    after, before = windows((3, 3), (2, 2), (1, 1)), windows((3, 3), (2, 2), (1, 1), True)
    assert after[3].tolist() == [0, -1, -1, -1]
    assert before[3].tolist() == [-1, -1, -1, 0]
    assert lattices((4, 4), (2, 2)).tolist()[1] == [1, 3, 9, 11]
    for table in (plain, windows((6, 4), (3, 2), (1, 1)), lattices((4, 6), (2, 3))):
        assert sorted(table.flatten().tolist()) == list(range(table.numel()))


# -- explain -----------------------------------------------------------------------------------


def test_attention_of_a_block_is_a_map_on_that_blocks_grid() -> None:
    trace = wrapped("swin").trace(PHOTO)
    heat = explain("attention", trace, block=1, head=1, row=37)
    assert heat.values.shape == (8, 16)
    assert heat.geometry.grid == (8, 16)
    assert np.array_equal(heat.values.ravel(), trace.attention(1, 1, [37])[0].numpy())
    assert (heat.values > NOTHING).sum() == 16  # one window
    last = explain("attention", trace)
    assert last.values.shape == trace.grid == (4, 8)
    mean = trace.attention(3).mean((0, 1)).reshape(4, 8)  # the head means the cells
    np.testing.assert_allclose(last.values, mean.numpy(), atol=1e-12)
    with pytest.raises(ModelError, match="choose the row of one of its cells"):
        explain("attention", trace, block=0)
    with pytest.raises(ValueError, match=r"head must be .*-2\.\.1"):
        explain("attention", trace, block=0, head=2, row=0)
    with pytest.raises(ValueError, match=r"row must be .*0\.\.127"):
        explain("attention", trace, block=0, row=128)


def test_pits_class_token_looks_over_the_last_grid() -> None:
    trace = wrapped("pit").trace(PHOTO)
    heat = explain("attention", trace)
    wanted = trace.attention(2).mean(0)[0]
    np.testing.assert_allclose(heat.values.ravel(), wanted[1:].numpy(), atol=1e-12)
    assert heat.prefix_share == pytest.approx(float(wanted[0]))


def test_what_leads_from_the_answer_to_the_photo_is_refused_with_the_reason() -> None:
    vit = wrapped("swin")
    for name in ("rollout", "relevance", "legrad", "daam", "attention_flow", "value_norm"):
        support = vit.supports(name)
        assert not support
        assert "merges patches between its stages" in str(support.reason)
    assert not vit.supports("gradient_rollout")
    assert not vit.supports("gradient_x_attention")
    with pytest.raises(ModelError, match="merges patches"):
        explain("rollout", vit.trace(PHOTO))


@pytest.mark.parametrize("family", ["swin", "twins", "coatnet"])
def test_a_wrong_scale_is_caught(family: str) -> None:
    vit = wrapped(family)
    real = vit.adapter.after_merge
    vit.adapter.after_merge = lambda *given: real(*given) * 1.001  # type: ignore[method-assign]
    vit.trace(PHOTO)
    assert "differs from what the model used" in str(vit.supports("attention").reason)
    assert vit.supports("grad_cam")


def test_blocks_of_several_grids_do_not_stand_side_by_side() -> None:
    trace = wrapped("swin").trace(PHOTO)
    distance = head_figures(trace).distance  # of each block on its own grid and heads
    assert all(np.isfinite(distance[i, : c.heads]).all() for i, c in enumerate(trace.calls))
    with pytest.raises(ModelError, match="grids of several sizes"):
        shape_of(trace.model)
    alone = wrapped("coatnet").trace(PHOTO)  # one block, on the model's own grid
    assert head_figures(alone).distance.shape == (1, 2)
