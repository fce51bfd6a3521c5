"""The Anatomy tab's steps around a block's attention: norms, sums and the MLP."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from app.anatomy_pieces import (
    Shown,
    View,
    column,
    formulas,
    num,
    paragraph,
    percent,
    plus,
    scale_bar,
    shape_line,
    short_num,
    vector,
)
from explainers.render.strips import strip


def norm(view: View) -> Shown:
    """LayerNorm: each token's numbers brought to one scale."""
    b, i, block = view.block, view.query, view.anatomy.block(view.block)
    before, after = _kept(block.input)[i], _kept(block.norm1)[i]
    layer: Any = view.trace.model.adapter.blocks[b].norm1
    worked = ""
    if isinstance(layer, torch.nn.LayerNorm):
        mean, variance = float(before.mean()), float(before.var(unbiased=False))
        scale = layer.weight.detach()
        shift = torch.zeros_like(scale) if layer.bias is None else layer.bias.detach()
        worked = formulas(
            rf"\mathrm{{mean}} = {num(mean)},\quad \mathrm{{var}} = {num(variance)}",
            *(
                rf"\mathrm{{LN}}(z)_{{{k + 1}}} = {num(float(scale[k]))}\cdot"
                rf"\frac{{{num(float(before[k]))} {plus(-mean)}}}"
                rf"{{\sqrt{{{num(variance)} + {short_num(layer.eps)}}}}} {plus(float(shift[k]))}"
                rf" = {num(float(after[k]))}"
                for k in range(2)
            ),
        )
    return Shown(
        view.picture(),
        alt(view, "norm"),
        detail=shape_line(view, (f"input.{b}", _kept(block.input).shape))
        + vector(view, view.say("anatomy_entering", token=view.name(i)), f"input.{b}", i)
        + vector(view, view.say("anatomy_normed"), f"norm1.{b}", i),
        worked=worked,
    )


def merge(view: View) -> Shown:
    """All heads side by side, projected, and added to what came in."""
    b, i, block = view.block, view.query, view.anatomy.block(view.block)
    stream, middle = _kept(block.input), _kept(block.middle)
    added = middle - stream
    limit = max(float(stream[i].abs().max()), float(middle[i].abs().max()))
    detail = shape_line(view, (f"heads.{b}", _kept(block.heads).shape))
    detail += vector(view, view.say("anatomy_merged"), f"heads.{b}", i)
    notes = []
    if block.projected is not None:
        detail += vector(view, view.say("anatomy_out"), f"projected.{b}", i)
        scaled = (added - block.projected).abs().max() > 1e-4 * added.abs().max()
        notes = [view.say("anatomy_layer_scale")] if bool(scaled) else []
    detail += vector(view, view.say("anatomy_came_in"), f"input.{b}", i, limit=limit)
    detail += vector(view, view.say("anatomy_with_attention"), f"middle.{b}", i, limit=limit)
    return _changed(view, "merge", added, stream, middle, detail, notes)


def mlp(view: View) -> Shown:
    """LayerNorm, two layers on each token alone, and the second sum."""
    b, i, block = view.block, view.query, view.anatomy.block(view.block)
    middle, output = _kept(block.middle), _kept(block.output)
    limit = max(float(middle[i].abs().max()), float(output[i].abs().max()))
    detail = vector(view, view.say("anatomy_with_attention"), f"middle.{b}", i, limit=limit)
    if block.norm2 is not None:
        detail += vector(view, view.say("anatomy_normed"), f"norm2.{b}", i)
    if block.hidden is not None:
        share = float((block.hidden[i] > 0).cpu().double().mean())
        detail += vector(view, view.say("anatomy_hidden"), f"hidden.{b}", i)
        detail += paragraph(
            view.say("anatomy_active", percent=percent(share), count=block.hidden.shape[1])
        )
    detail += vector(view, view.say("anatomy_leaving"), f"output.{b}", i, limit=limit)
    shapes = [(f"output.{b}", output.shape)]
    if block.hidden is not None:
        shapes.insert(0, (f"hidden.{b}", block.hidden.shape))
    return _changed(
        view, "mlp", output - middle, middle, output, shape_line(view, *shapes) + detail, []
    )


def _changed(
    view: View,
    step: str,
    added: Tensor,
    before: Tensor,
    after: Tensor,
    detail: str,
    notes: list[str],
) -> Shown:
    """A sum: how much of each patch is new, and two numbers of it worked out."""
    i = view.query
    share = (added.norm(dim=-1) / before.norm(dim=-1).clamp_min(1e-12)).cpu()  # (N,)
    patches = share[view.trace.prefix :].numpy()
    top = float(patches.max())
    three = [column(t[i, :2].tolist()) for t in (before, added, after)]
    under = scale_bar("0", percent(top))
    under += paragraph(
        view.say("anatomy_new", token=view.name(i), percent=percent(float(share[i]))), "vs-state"
    )
    return Shown(
        view.picture(strip(patches, top, signed=False)[0]),
        alt(view, step),
        under=under,
        detail=detail,
        worked=formulas(rf"{three[0]} + {three[1]} = {three[2]}"),
        notes=notes,
    )


def alt(view: View, step: str) -> str:
    """What the picture of a step in a block shows, in words."""
    return view.say(
        "anatomy_block_alt",
        step=view.say(f"anatomy_title_{step}"),
        block=view.block,
        head=view.head,
        token=view.name(view.query),
    )


def _kept(tensor: Tensor | None) -> Tensor:
    """A tensor of a block whose step is supported."""
    if tensor is None:
        raise ValueError("this step needs a tensor that the model's design hides")
    return tensor
