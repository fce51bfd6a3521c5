"""The Anatomy tab's steps inside a block's attention: one head, for the token that asks."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from app.anatomy_block import alt
from app.anatomy_pieces import (
    Shown,
    View,
    bars,
    column,
    formulas,
    matrix,
    num,
    number,
    paragraph,
    percent,
    plus,
    scale_bar,
    shape_line,
    short_num,
    vector,
)
from explainers.render.strips import strip

LIKELIEST = 8
"""Tokens listed with their shares."""


def scores(view: View) -> Shown:
    """q·kᵀ/√d of the token that asks with all others, as a map."""
    b, h, i, block = view.block, view.head, view.query, view.anatomy.block(view.block)
    row = view.anatomy.scores(b, h, i)
    pair = _pair(view)
    q, k = block.q[h, pair].cpu().double(), block.k[h, pair].cpu().double()
    d = q.shape[-1]
    dots = q @ k.T
    mean = float(row.mean())
    limit = float((row - mean).abs().max())
    patches = row[view.trace.prefix :]
    best = int(patches.argmax()) + view.trace.prefix
    scaled = dots * block.scale
    steps = [matrix(dots.tolist()), matrix(scaled.tolist())]
    notes = []
    bias = view.anatomy.attention_bias(b, h, i)
    if bias is not None:
        notes.append(view.say("anatomy_bias"))
    plain = abs(block.scale * d**0.5 - 1) < 1e-3
    if not plain:  # q comes scaled, or the model has a scale of its own
        notes.append(view.say("anatomy_scale", scale=f"{block.scale:.4g}"))
    factor = rf"\frac{{1}}{{\sqrt{{{d}}}}}" if plain else f"{block.scale:.4g}"
    return Shown(
        view.picture(strip((patches - mean).cpu().numpy(), limit)[0]),
        alt(view, "scores"),
        under=scale_bar(number(mean - limit), number(mean + limit), True, number(mean))
        + paragraph(
            view.say("anatomy_best", token=view.name(best), value=number(float(row[best]))),
            "vs-state",
        ),
        detail=shape_line(
            view, (f"q.{b}", block.q.shape), (f"scores.{b}", (*block.q.shape[:2], len(row)))
        )
        + vector(view, view.say("anatomy_query", token=view.name(i)), f"q.{b}", h, i)
        + vector(view, view.say("anatomy_key", token=view.name(best)), f"k.{b}", h, best)
        + vector(view, view.say("anatomy_scores"), f"scores.{b}", h, i, limit=limit, middle=mean),
        worked=_two(view, pair) + formulas(rf"{factor}\cdot {steps[0]} = {steps[1]}"),
        notes=notes,
    )


def softmax(view: View) -> Shown:
    """The scores turned into shares that sum to 1."""
    b, h, i = view.block, view.head, view.query
    row = view.anatomy.row(f"attention.{b}", h, i)
    raw = view.anatomy.scores(b, h, i).cpu().double()
    order = row.topk(min(LIKELIEST, len(row))).indices.tolist()
    pair = _pair(view)
    highest = float(raw.max())
    total = float((raw - highest).exp().sum())
    lines = [
        rf"A_{{{n + 1}}} = \frac{{e^{{{num(float(raw[j]))} {plus(-highest)}}}}}{{{num(total)}}}"
        rf" = \frac{{{short_num(float((raw[j] - highest).exp()))}}}{{{num(total)}}} = "
        rf"{float(row[j]):.4f}"
        for n, j in enumerate(pair)
    ]
    detail = shape_line(view, (f"attention.{b}", (view.trace.heads, len(row), len(row))))
    detail += vector(
        view, view.say("anatomy_shares", token=view.name(i)), f"attention.{b}", h, i, signed=False
    )
    detail += paragraph(view.say("anatomy_most"))
    detail += bars((view.name(j), float(row[j]), percent(float(row[j]))) for j in order)
    return Shown(
        _attention_picture(view, row),
        alt(view, "softmax"),
        under=_attention_scale(view, row),
        detail=detail,
        worked=_two(view, pair, rows=False)
        + view.say("anatomy_highest_off")
        + "\n\n"
        + formulas(
            rf"\sum_m e^{{s_m {plus(-highest)}}} = {num(total)}",
            *lines,
            rf"\sum_j A_j = {num(float(row.sum()))}",
        ),
    )


def values(view: View) -> Shown:
    """What the looked-at tokens hand over, weighted by their shares."""
    b, h, i, block = view.block, view.head, view.query, view.anatomy.block(view.block)
    row = view.anatomy.row(f"attention.{b}", h, i)
    order = row.topk(min(3, len(row))).indices.tolist()
    limit = float(block.v[h, order].abs().max())
    detail = shape_line(view, (f"v.{b}", block.v.shape))
    for j in order:
        name = view.say("anatomy_value", token=view.name(j), share=percent(float(row[j])))
        detail += vector(view, name, f"v.{b}", h, j, limit=limit)
    width = block.v.shape[-1]
    v = block.v[h].cpu().double()
    mixed = (row.cpu().double() @ v)[:2]
    two = [float(row[j]) * v[j, :2] for j in order[:2]]
    rest = mixed - sum(two)
    if view.anatomy.support("merge") and block.heads is not None:
        detail += vector(view, view.say("anatomy_merged"), f"heads.{b}", i)
    parts = " + ".join(
        rf"{float(row[j]):.3f}\cdot {column(block.v[h, j, :2].tolist())}" for j in order[:2]
    )
    others = view.say("anatomy_others", count=len(row) - 2)
    return Shown(
        _attention_picture(view, row),
        alt(view, "values"),
        under=_attention_scale(view, row),
        detail=detail,
        worked=view.say("anatomy_two_of", count=width, head=h)
        + "\n\n"
        + formulas(
            rf"o = {parts} + \underbrace{{{column(rest.tolist())}}}_{{\text{{{others}}}}}"
            rf" = {column(mixed.tolist())}"
        ),
        notes=[view.say("anatomy_segment", head=h, first=h * width, last=(h + 1) * width - 1)],
    )


def _pair(view: View) -> list[int]:
    """The token that asks and the patch that it looks at most."""
    row = view.anatomy.row(f"attention.{view.block}", view.head, view.query).clone()
    row[view.query] = -1
    row[: view.trace.prefix] = -1
    return [view.query, int(row.argmax())]


def _two(view: View, pair: list[int], rows: bool = True) -> str:
    first, second = map(view.name, pair)
    key = "anatomy_two_by_two" if rows else "anatomy_two"
    return view.say(key, first=first, second=second) + "\n\n"


def _attention_picture(view: View, row: Tensor) -> Any:
    patches = row[view.trace.prefix :].cpu().numpy()
    return view.picture(strip(patches, float(patches.max()), signed=False)[0])


def _attention_scale(view: View, row: Tensor) -> str:
    patches, text = row[view.trace.prefix :], ""
    if view.trace.prefix:
        text = view.say("anatomy_on_prefix", percent=percent(float(row[: view.trace.prefix].sum())))
    return scale_bar("0", percent(float(patches.max()))) + paragraph(text, "vs-state")
