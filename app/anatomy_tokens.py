"""The Anatomy tab's first steps: from the photo's pixels to the tokens with their positions."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image, ImageDraw

from app.anatomy_pieces import (
    Shown,
    View,
    formulas,
    matrix,
    num,
    number,
    paragraph,
    percent,
    plus,
    scale_bar,
    shape_line,
    tile,
    tiles,
    vector,
)
from explainers.render.charts import display_filters
from explainers.render.strips import FRAME, strip

STRONGEST = 6
"""Filters that are shown: those that answer the chosen patch most."""

CHANNEL = 160
"""Pixels a side of the small pictures of the three colours, at least."""

SIDE = 640


def photo(view: View) -> Shown:
    """The photo, what the model sees of it, and its numbers after normalisation."""
    trace, pixels = view.trace, view.anatomy.pixels
    _, height, width = pixels.shape
    prepared = trace.model.preprocessing
    limit = float(pixels.abs().max())
    every = max(1, max(height, width) // CHANNEL)
    channels = [
        tile(
            strip(pixels[k, ::every, ::every].cpu().numpy(), limit),
            view.say(f"anatomy_channel_{colour}", mean=prepared.mean[k], std=prepared.std[k]),
        )
        for k, colour in enumerate("rgb")
    ]
    level = int(trace.model.preprocessing.undo(pixels)[0, 0, 0])
    mean, deviation = prepared.mean[0], prepared.std[0]
    return Shown(
        _framed_photo(view),
        view.say(
            "anatomy_photo_alt",
            photo_width=trace.photo.width,
            photo_height=trace.photo.height,
            width=width,
            height=height,
        ),
        detail=shape_line(view, ("pixels", pixels.shape))
        + tiles(channels)
        + scale_bar(number(-limit), number(limit), signed=True),
        worked=formulas(
            rf"x_{{R,1,1}} = \frac{{{level}/255 - {mean:g}}}{{{deviation:g}}}"
            rf" = {num(float(pixels[0, 0, 0]))}"
        ),
    )


def patches(view: View) -> Shown:
    """The grid, and the chosen patch flattened."""
    trace, (ph, pw) = view.trace, view.trace.model.adapter.patch
    _, height, width = view.anatomy.pixels.shape
    rows, columns = trace.grid
    flat = view.anatomy.patches
    top, left = view.row * ph, view.column * pw
    square = view.seen[top : top + ph, left : left + pw]
    name = view.name(view.token)
    return Shown(
        view.picture(),
        view.say("anatomy_patches_alt", rows=rows, columns=columns, patch=name),
        under=paragraph(view.say("anatomy_click"), "vs-state"),
        detail=shape_line(view, ("patches", flat.shape))
        + tiles([tile(square, view.say("anatomy_patch_tile", patch=name, height=ph, width=pw))])
        + vector(view, view.say("anatomy_flat"), "patches", view.patch)
        + paragraph(view.say("anatomy_flat_order"), "vs-state"),
        worked=formulas(
            rf"N = \frac{{{height}}}{{{ph}}}\cdot\frac{{{width}}}{{{pw}}} = "
            rf"{rows}\cdot{columns} = {rows * columns}",
            rf"{ph}\cdot{pw}\cdot 3 = {flat.shape[1]}",
        ),
        notes=[view.say("anatomy_rest")] if (rows * ph, columns * pw) != (height, width) else [],
    )


def projection(view: View) -> Shown:
    """One patch laid under every filter: each number is a filter's answer."""
    anatomy, (ph, pw) = view.anatomy, view.trace.model.adapter.patch
    answer = anatomy.embedding[view.patch]
    filters = anatomy.filters.reshape(-1, ph, pw, 3).cpu().double().numpy()
    best = (answer - anatomy.filter_bias).abs().topk(min(STRONGEST, len(answer))).indices.tolist()
    shown = [
        tile(
            display_filters(filters[k : k + 1])[0],
            view.say("anatomy_filter", index=k, value=number(float(answer[k]))),
        )
        for k in best
    ]
    flat, again = anatomy.patches[view.patch], anatomy.repainted[view.patch]
    kept = 1 - float((flat - again).square().sum() / flat.square().sum().clamp_min(1e-12))
    top, left = view.row * ph, view.column * pw
    pair = [
        tile(view.seen[top : top + ph, left : left + pw], view.say("anatomy_patch_pixels")),
        tile(_as_picture(view, again), view.say("anatomy_patch_again", percent=percent(kept))),
    ]
    k = best[0]
    weights, bias = anatomy.filters[k], float(anatomy.filter_bias[k])
    two = [float(weights[j] * flat[j]) for j in range(2)]
    rest = float(answer[k]) - bias - sum(two)
    return Shown(
        view.picture(),
        view.say("anatomy_projection_alt", patch=view.name(view.token)),
        detail=shape_line(view, ("embedding", anatomy.embedding.shape))
        + vector(view, view.say("anatomy_flat"), "patches", view.patch)
        + vector(view, view.say("anatomy_projected"), "embedding", view.patch)
        + paragraph(view.say("anatomy_filters_best"))
        + tiles(shown)
        + paragraph(view.say("anatomy_sum"))
        + tiles(pair),
        worked=formulas(
            rf"e_{{{k}}} = \sum_{{j=1}}^{{{len(flat)}}} E_{{{k},j}}\,x_j + b_{{{k}}}",
            rf"= {num(float(weights[0]))}\cdot({num(float(flat[0]))}) "
            rf"+ ({num(float(weights[1]))})\cdot({num(float(flat[1]))}) + \dots {plus(bias)}",
            rf"= {num(two[0])} {plus(two[1])} + \underbrace{{({num(rest)})}}_{{\text{{"
            rf"{view.say('anatomy_others', count=len(flat) - 2)}}}}} {plus(bias)} "
            rf"= {num(float(answer[k]))}",
        ),
        notes=[view.say("anatomy_conv", patch=ph)],
    )


def prefix(view: View) -> Shown:
    """The learned tokens put in front."""
    trace, names = view.trace, view.trace.model.adapter.prefix_names
    shape = view.anatomy.prefixed.shape
    rows = [vector(view, view.name(i), "prefixed", i) for i in range(len(names))]
    rows.append(vector(view, view.name(view.token), "prefixed", view.token))
    n = shape[0] - trace.prefix
    notes = []
    if not names:
        notes.append(view.say("anatomy_no_cls", pooling=trace.model.adapter.pooling_name))
    if "DIST" in names:
        notes.append(view.say("anatomy_dist"))
    registers = sum(name.startswith("register") for name in names)
    if registers:
        notes.append(view.say("anatomy_registers", count=registers))
    return Shown(
        view.picture(),
        view.say("anatomy_prefix_alt", count=trace.prefix, tokens=shape[0]),
        detail=shape_line(view, ("prefixed", shape)) + "".join(rows),
        worked=formulas(
            rf"{n} + {trace.prefix} = {shape[0]}\ \text{{{view.say('anatomy_word_tokens')}}}"
            rf"\times {shape[1]}"
        ),
        notes=notes,
    )


def positions(view: View) -> Shown:
    """Before and after, and how like the chosen place is to all others."""
    anatomy, trace = view.anatomy, view.trace
    added = anatomy.positions
    i, limit = view.token, _limit(anatomy.prefixed[view.token], anatomy.positioned[view.token])
    detail = shape_line(view, ("positions", added.shape), ("positioned", added.shape))
    detail += vector(view, view.say("anatomy_before"), "prefixed", i, limit=limit)
    detail += vector(view, view.say("anatomy_position"), "positions", i, limit=limit)
    detail += vector(view, view.say("anatomy_after"), "positioned", i, limit=limit)
    notes: list[str] = []
    cells, under = None, ""
    if anatomy.has_positions:
        patches_only = added[trace.prefix :].cpu().double()
        cosine = torch.nn.functional.cosine_similarity(
            patches_only, patches_only[view.patch : view.patch + 1], dim=-1
        )
        cells = strip(cosine.numpy(), 1.0)[0]
        under = scale_bar("\N{MINUS SIGN}1", "1", signed=True)
        under += paragraph(view.say("anatomy_alike"), "vs-state")
    else:
        notes.append(view.say("anatomy_no_positions"))
    if anatomy.pre_norm:
        notes.append(view.say("anatomy_pre_norm"))
        detail += vector(view, view.say("anatomy_pre_normed"), "input.0", i)
    other = i + 1 if i + 1 < trace.tokens else i - 1
    pair = [i, other]
    three = [
        matrix(tensor[pair, :2].tolist())
        for tensor in (anatomy.prefixed, added, anatomy.positioned)
    ]
    return Shown(
        view.picture(cells),
        view.say("anatomy_positions_alt", patch=view.name(i)),
        under=under,
        detail=detail,
        worked=view.say("anatomy_two_by_two", first=view.name(i), second=view.name(other))
        + "\n\n"
        + formulas(rf"{three[0]} + {three[1]} = {three[2]}"),
        notes=notes,
    )


def _limit(*tensors: torch.Tensor) -> float:
    """One scale for strips that are compared."""
    return max(float(tensor.abs().max()) for tensor in tensors)


def _as_picture(view: View, flat: torch.Tensor) -> np.ndarray:
    """A flattened patch as pixels again (P, P, 3)."""
    ph, pw = view.trace.model.adapter.patch
    return view.trace.model.preprocessing.undo(flat.reshape(ph, pw, 3).permute(2, 0, 1))


def _framed_photo(view: View) -> Image.Image:
    """The whole photo, dark where the model sees nothing of it, with a frame."""
    trace, geometry = view.trace, view.trace.geometry
    image = trace.photo.to_pil()
    scale = SIDE / max(image.size)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    image = image.resize(size, Image.Resampling.LANCZOS)
    height, width = view.anatomy.pixels.shape[1:]
    (left, top), (right, bottom) = (
        geometry.input_to_photo(0, 0),
        geometry.input_to_photo(width, height),
    )
    x0, y0 = (max(0, round(float(v) * scale)) for v in (left, top))
    x1 = min(size[0], round(float(right) * scale))
    y1 = min(size[1], round(float(bottom) * scale))
    dark = Image.blend(image, Image.new("RGB", size, (24, 24, 27)), 0.62)
    dark.paste(image.crop((x0, y0, x1, y1)), (x0, y0))
    ImageDraw.Draw(dark).rectangle((x0, y0, x1 - 1, y1 - 1), outline=FRAME, width=3)
    return dark
