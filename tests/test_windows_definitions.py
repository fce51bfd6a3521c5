"""Swin's and MViT's attention on the true grid: against the definition, two cells at a time."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from explainers import wrap_model
from tests.grid_families import SIZE, grid_model
from tests.grid_looks import PHOTO, wrapped


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


# -- MViT from its definition -----------------------------------------------------------------


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
