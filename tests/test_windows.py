"""Attention inside windows, shown on the true grid: against the definition, cell by cell."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers import ModelError, VisionModel, explain, load_photo, wrap_model
from explainers.models.windows import lattices, unrolled, windows
from explainers.trace import Trace
from explainers.views.cost import shape_of
from explainers.views.heads import head_figures
from tests.grid_families import FAMILIES, SIZE, grid_model, size_of
from tests.tiny import tiny_photo_array

PHOTO = load_photo(tiny_photo_array())
OTHER = load_photo(tiny_photo_array(seed=9))
NOTHING = 1e-20  # Swin's mask is −100, not −∞


def wrapped(family: str, **given: Any) -> VisionModel:
    return wrap_model(grid_model(family, **given), size=size_of(family))


def read_by(module: nn.Module, part: nn.Module, pixels: Tensor, before: bool) -> Tensor:
    """What a part of the module is given, or hands on, in one pass."""
    seen: list[Tensor] = []
    hook = part.register_forward_hook(
        lambda _, given, output: seen.append(given[0] if before else output)
    )
    with torch.no_grad():
        module(pixels)
    hook.remove()
    return seen[0]


# -- Swin from its definition ----------------------------------------------------------------


def slow_swin(block: Any, cells: Tensor, cosine: bool) -> Tensor:
    """Attention (H, h·w, h·w) of one block over what it reads (h, w, C): two cells at a time.

    A cell at (r, c) lies at ((r − s) mod h, (c − s) mod w) of the shifted grid, in the window
    that covers this place; those that came over the edge are kept apart from the others.
    """
    (h, w), heads = cells.shape[:2], block.attn.num_heads
    (wh, ww), (sh, sw) = block.window_size, block.shift_size
    bias = swin_v2_bias(block.attn) if cosine else block.attn.relative_position_bias_table
    weight = block.attn.qkv.weight
    qkv = cells @ weight.T
    if cosine:
        zero = torch.zeros_like(block.attn.q_bias)
        qkv = qkv + torch.cat([block.attn.q_bias, zero, block.attn.v_bias])
    else:
        qkv = qkv + block.attn.qkv.bias
    q, k, _ = qkv.unflatten(2, (3, heads, -1)).permute(2, 3, 0, 1, 4)  # (H, h, w, D) each
    scale = torch.full((heads,), q.shape[-1] ** -0.5, dtype=q.dtype)
    if cosine:
        q, k = q / q.norm(dim=-1, keepdim=True), k / k.norm(dim=-1, keepdim=True)
        scale = block.attn.logit_scale.flatten().clamp(max=math.log(100)).exp()

    def place(r: int, c: int) -> tuple[Any, ...]:
        y, x = (r - sh) % h, (c - sw) % w
        window = y // wh, x // ww
        over = (sh > 0 and y >= h - sh, sw > 0 and x >= w - sw)
        return window, over, (y % wh, x % ww)

    scores = torch.full((heads, h, w, h, w), -torch.inf, dtype=q.dtype)
    for (r, c), (s, d) in product(product(range(h), range(w)), repeat=2):
        here, there = place(r, c), place(s, d)
        if here[0] != there[0]:
            continue
        down, across = here[2][0] - there[2][0], here[2][1] - there[2][1]
        added = bias[(down + wh - 1) * (2 * ww - 1) + across + ww - 1]
        kept_apart = -100.0 if here[1] != there[1] else 0.0
        scores[:, r, c, s, d] = scale * (q[:, r, c] * k[:, s, d]).sum(-1) + added + kept_apart
    return scores.reshape(heads, h * w, h * w).softmax(-1)


def swin_v2_bias(attention: Any) -> Tensor:
    """16 · sigmoid of a small network over log-spaced offsets: ((2h − 1)(2w − 1), H)."""
    (wh, ww) = attention.window_size
    offsets = torch.tensor(list(product(range(1 - wh, wh), range(1 - ww, ww)))).double()
    scaled = 8 * offsets / torch.tensor([wh - 1, ww - 1])
    spaced = scaled.sign() * (scaled.abs() + 1).log2() / 3
    return 16 * torch.sigmoid(attention.cpb_mlp(spaced))


@pytest.mark.parametrize("family", ["swin", "swin_v2"])
def test_swin_equals_its_definition_two_cells_at_a_time(family: str) -> None:
    vit = wrapped(family)
    trace = vit.trace(PHOTO)
    module: Any = vit.module
    for number, block in enumerate([*module.layers[0].blocks, *module.layers[1].blocks]):
        v2 = family == "swin_v2"
        # Swin V2 has its norm after the attention, which reads what the block reads.
        cells = read_by(module, block if v2 else block.norm1, trace.pixels, before=v2)
        with torch.no_grad():
            wanted = slow_swin(block, cells[0], cosine=v2)
        rounding = 1e-6 if v2 else 1e-10  # timm holds the offsets of Swin V2 in float32
        torch.testing.assert_close(trace.attention(number), wanted, rtol=0, atol=rounding)


def test_a_link_planted_in_a_shifted_window_lies_between_the_true_cells() -> None:
    """Every cell is made to look at its right-hand neighbour; across a window's edge as well."""
    module: Any = grid_model("swin")
    planted = module.layers[0].blocks[1].attn
    with torch.no_grad():
        to_the_right = (0 + 3) * 7 + (-1 + 3)  # offset (0, −1) of query and key, window 4
        planted.relative_position_bias_table[to_the_right] += 1000
    trace = wrap_model(module, size=SIZE).trace(PHOTO)
    h, w = trace.block_grids(1)[0]
    rows = trace.attention(1).reshape(2, h, w, h, w)
    linked = 0
    for r, c in product(range(h), range(w - 1)):
        if (c + 1 - 2) % 4 == 0 or c + 1 == 2:  # shifted by 2: an edge of windows lies between
            continue
        linked += 1
        assert (rows[:, r, c, r, c + 1] > 0.999).all(), (r, c)
    assert linked == h * (w - 1 - 4)
    assert (rows[:, 0, 3, 0, 4] > 0.999).all()  # cells that unshifted windows would have parted


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


def slow_mvit(layer: Any, read: Tensor, grid: tuple[int, int]) -> Tensor:
    """Attention (H, n, m) of one MViTv2 layer over what it reads (1, n, C): two cells at a time.

    Queries and keys are pooled by convolutions; added to each product are the query's products
    with a vector for how far apart the two cells are down, and with one for across.
    """
    heads, prefix = layer.num_heads, int(layer.has_cls_token)
    q, k, _ = layer.qkv(read).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)

    def pooled(tensor: Tensor, pool: Any, norm: Any) -> tuple[Tensor, tuple[int, int]]:
        if pool is None:
            return tensor[0], grid
        cells = tensor[0, :, prefix:].transpose(1, 2).unflatten(2, grid)  # (H, D, h, w)
        made = pool(cells)
        tokens = torch.cat([tensor[0, :, :prefix], made.flatten(2).transpose(1, 2)], 1)
        return norm(tokens), (made.shape[2], made.shape[3])

    (q, q_grid), (k, k_grid) = (
        pooled(q, layer.pool_q, layer.norm_q),
        pooled(k, layer.pool_k, layer.norm_k),
    )
    scores = layer.scale * q @ k.mT
    if layer.rel_pos_type == "spatial":
        cells = [list(product(range(g[0]), range(g[1]))) for g in (q_grid, k_grid)]
        for (i, here), (j, there) in product(*map(enumerate, cells)):
            for axis, table in enumerate((layer.rel_pos_h, layer.rel_pos_w)):
                n, m = q_grid[axis], k_grid[axis]
                apart = here[axis] * max(m / n, 1) - (there[axis] - (m - 1)) * max(n / m, 1)
                scores[:, prefix + i, prefix + j] += q[:, prefix + i] @ table[int(apart)]
    return scores.softmax(-1)


@pytest.mark.parametrize("family", ["mvitv2", "mvitv2_cls", "mvitv2_plain"])
def test_mvit_equals_its_definition_two_cells_at_a_time(family: str) -> None:
    vit = wrapped(family)
    trace = vit.trace(PHOTO)
    module: Any = vit.module
    grid = (16, 16)
    for number, block in enumerate(block for stage in module.stages for block in stage.blocks):
        read = read_by(module, block.attn, trace.pixels, before=True)
        with torch.no_grad():
            wanted = slow_mvit(block.attn, read.detach(), grid)
        torch.testing.assert_close(trace.attention(number), wanted, rtol=0, atol=1e-10)
        grid = trace.block_grids(number)[0]
