"""What a comparison looks like: its table, two maps under one slider, and how far maps agree."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image

from app import cards, compare_names, drawing
from app.comparison import Cell, Comparison
from app.errors import explain_error
from app.scene import Display
from app.texts import of_method, say
from explainers import HeatMap, methods
from explainers.render.overlay import overlay
from explainers.views.agreement import Agreement, agreement, difference

WIDE, LARGE = 300, 760
"""Pixels of a picture's longer side: in the table, and under the slider."""


def table(lang: str, found: Comparison, display: Display, picked: Sequence[int]) -> str:
    """One table a photo: a row for each model and class, a column for each method."""
    asked = found.asked
    parts = []
    for number, photo in enumerate(found.photos):
        head = "".join(
            f"<th scope='col'>{escape(of_method(lang, methods()[name], 'title'))}</th>"
            for name in asked.methods
        )
        rows = []
        for model in asked.models:
            for aim in asked.classes:
                mine = [
                    (place, cell)
                    for place, cell in enumerate(found.cells)
                    if (cell.photo, cell.model, cell.aim) == (number, model, aim)
                ]
                cells = _refused_row(lang, [cell for _, cell in mine]) or "".join(
                    f"<td>{_cell(lang, found, cell, place, display, picked)}</td>"
                    for place, cell in mine
                )
                name = compare_names.row(lang, found, number, model, [cell for _, cell in mine])
                rows.append(f"<tr><th scope='row'>{name}</th>{cells}</tr>")
        title = escape(say(lang, "compare_photo_gone") if photo is None else photo.name)
        parts.append(
            f"<div class='vs-scroll'><table class='vs-table'><caption>{title}</caption>"
            f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        )
    return "".join(parts)


def _refused_row(lang: str, cells: Sequence[Cell]) -> str:
    """One reason for a whole row, as where its model is not here; else nothing."""
    first = cells[0]
    if first.reason is None or any(cell.reason != first.reason for cell in cells):
        return ""
    return f"<td colspan='{len(cells)}'>{cards.refused(lang, first.reason)}</td>"


def _cell(
    lang: str, found: Comparison, cell: Cell, place: int, display: Display, picked: Sequence[int]
) -> str:
    if cell.same:
        return cards.line("vs-state", say(lang, "class_any"))
    if cell.reason is not None or cell.failed:
        return cards.refused(lang, cell.reason)
    if cell.heat is None:
        return f"<i class='vs-room' title='{escape(say(lang, 'card_waiting'), quote=True)}'></i>"
    together = sharing(found, cell)
    try:
        source = _source(cell, display, together, WIDE)
    except ValueError as error:
        return cards.line("vs-refused", explain_error(lang, error))
    alt = escape(
        f"{compare_names.title(lang, found, cell)}. {cards.description(lang, cell.heat)}",
        quote=True,
    )
    side = {0: "left", 1: "right"}.get(picked.index(place)) if place in picked else None
    mark = "" if side is None else f"<em>{escape(say(lang, f'compare_{side}'))}</em>"
    return (
        f"<button type='button' data-cell='{place}' aria-pressed='{str(bool(side)).lower()}'>"
        f"<img alt='{alt}' src='{source}'>{mark}</button>"
        f"{drawing.colour_bar(cell.heat, display, together)}"
    )


def sharing(found: Comparison, cell: Cell) -> list[HeatMap]:
    """The maps of one method, which have one unit: a shared scale is theirs."""
    return [c.heat for c in found.cells if c.heat is not None and c.method == cell.method]


def pair(lang: str, found: Comparison, display: Display, picked: Sequence[int]) -> str:
    """Two maps of one photo under one slider."""
    cells = [found.cells[place] for place in picked if place < len(found.cells)]
    if len(cells) < 2 or any(cell.heat is None for cell in cells):
        return cards.line("vs-state", say(lang, "compare_pick"))
    if cells[0].photo != cells[1].photo:
        return cards.line("vs-refused", say(lang, "compare_one_photo"))
    try:
        left, right = (_source(cell, display, sharing(found, cell), LARGE) for cell in cells)
    except ValueError as error:
        return cards.line("vs-refused", explain_error(lang, error))
    names = [escape(compare_names.title(lang, found, cell), quote=True) for cell in cells]
    bars = [drawing.colour_bar(c.heat, display, sharing(found, c)) for c in cells if c.heat]
    label = escape(say(lang, "compare_slider"), quote=True)
    return (
        f"<div class='vs-slide'><div class='vs-stage'><img alt='{names[0]}' src='{left}'>"
        f"<img alt='{names[1]}' src='{right}' class='vs-over'><i></i>"
        f"<input type='range' min='0' max='100' step='1' value='50' aria-label='{label}'></div>"
        f"<div class='vs-ends'><div><b>{escape(say(lang, 'compare_left'))}</b> {names[0]}"
        f"{bars[0]}</div><div><b>{escape(say(lang, 'compare_right'))}</b> {names[1]}{bars[1]}"
        f"</div></div></div>"
    )


def signed(lang: str, found: Comparison, display: Display, picked: Sequence[int]) -> str:
    """The left map minus the right one, or why that is no map."""
    cells = [found.cells[place] for place in picked if place < len(found.cells)]
    heats = [cell.heat for cell in cells if cell.heat is not None]
    if len(heats) < 2 or cells[0].photo != cells[1].photo:
        return ""
    try:
        made = difference(heats[0], heats[1])
    except ValueError as error:
        return cards.line("vs-state", explain_error(lang, error))
    plain = Display(opacity=display.opacity, signed=display.signed)
    picture = _jpeg(overlay(made, width=_width(made, LARGE), **drawing.options(made, plain, [])))
    largest = f"{float(np.abs(made.values).max()):.3g}"
    key = "compare_difference_zero" if not made.values.any() else "compare_difference_text"
    text = say(lang, key, largest=largest) if key.endswith("text") else say(lang, key)
    alt = escape(text, quote=True)
    return (
        f"<img class='vs-large' alt='{alt}' src='{picture}'>"
        f"{drawing.colour_bar(made, plain, [])}{cards.line('', text)}"
        f"{_grid_note(lang, agreement(heats))}"
    )


def agreements(lang: str, found: Comparison, display: Display) -> str:
    """For each photo: how far its maps agree, in numbers, and their consensus."""
    parts = []
    for number, photo in enumerate(found.photos):
        cells = [c for c in found.cells if c.photo == number and c.heat is not None]
        ranked = [c for c in cells if c.heat is not None and c.heat.kind != "rgb"]
        if photo is None or len(ranked) < 2:
            continue
        try:
            agreed = agreement([c.heat for c in ranked if c.heat is not None])
        except ValueError as error:
            parts.append(cards.line("vs-refused", explain_error(lang, error)))
            continue
        left_out = len(cells) - len(ranked)
        note = say(lang, "compare_rgb", count=left_out) if left_out else ""
        parts.append(
            f"<div class='vs-agreed'><div>{_matrix(lang, found, ranked, agreed)}"
            f"</div><div>{_consensus(lang, found, agreed, display)}{_grid_note(lang, agreed)}"
            f"{cards.line('', note) if note else ''}</div></div>"
        )
    return "".join(parts)


def _matrix(lang: str, found: Comparison, cells: Sequence[Cell], agreed: Agreement) -> str:
    """Rank correlations below the diagonal, overlaps of the strongest fifths above it."""
    count = len(cells)
    head = "".join(f"<th scope='col'>{n + 1}</th>" for n in range(count))
    rows = []
    for i, cell in enumerate(cells):
        row = []
        for j in range(count):
            if i == j:
                row.append("<td class='vs-self'></td>")
                continue
            value = float(agreed.spearman[i, j] if i > j else agreed.overlap[i, j])
            text = f"{round(value, 2) + 0.0:.2f}".replace("-", "−")  # no minus zero
            kind = "vs-rank" if i > j else "vs-iou"
            against = " vs-minus" if value < 0 else ""
            row.append(f"<td class='{kind}{against}' style='--v:{abs(value):.3f}'>{text}</td>")
        name = escape(f"{i + 1}  {compare_names.title(lang, found, cell, with_photo=False)}")
        rows.append(f"<tr><th scope='row'>{name}</th>{''.join(row)}</tr>")
    photo = found.photos[cells[0].photo]
    name = "" if photo is None or len(found.photos) < 2 else f"{photo.name}: "
    caption = name + say(lang, "compare_matrix")
    return (
        f"{cards.line('vs-state', caption)}<div class='vs-scroll'>"
        f"<table class='vs-matrix' aria-label='{escape(caption, quote=True)}'>"
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _consensus(lang: str, found: Comparison, agreed: Agreement, display: Display) -> str:
    made = agreed.consensus
    plain = Display(opacity=display.opacity, unsigned=display.unsigned)
    picture = _jpeg(overlay(made, width=_width(made, 520), **drawing.options(made, plain, [])))
    text = say(lang, "compare_consensus", count=len(agreed.heats))
    return (
        f"<img class='vs-large' alt='{escape(text, quote=True)}' src='{picture}'>"
        f"{drawing.colour_bar(made, plain, [])}{cards.line('', text)}"
        f"{cards.line('', compare_names.speaking(lang, found, agreed.heats))}"
    )


def _grid_note(lang: str, agreed: Agreement) -> str:
    rows, columns = agreed.geometry.grid
    key = "compare_resampled" if agreed.resampled else "compare_same_grid"
    return cards.line("vs-state", say(lang, key, rows=rows, columns=columns))


def status(lang: str, found: Comparison) -> str:
    """How far it is, with a bar; at last how many maps there are of those that were to be made."""
    own = found.to_make
    ready, count = sum(not cell.waiting for cell in own), len(own)
    if not any(cell.waiting for cell in found.cells):
        text = say(lang, "compare_done", count=len(found.heats), of=count)
        if repeated := sum(cell.same for cell in found.cells):
            text += " " + say(lang, "compare_repeated", count=repeated)
        return f"<p>{escape(text)}</p>"
    what = found.working
    if what in methods():
        what = of_method(lang, methods()[what], "title")
    elif what in ("loading", "trace"):
        what = say(lang, f"status_{what}")
    text = say(lang, "compare_status", what=what, step=min(ready + 1, count), of=count)
    return f"<p>{escape(text)}</p>{cards.bar((ready + found.share) / max(count, 1))}"


def _source(cell: Cell, display: Display, together: Sequence[HeatMap], side: int) -> str:
    """The picture of a map as a data address; drawn once for each way of drawing it."""
    heat = cell.heat
    if heat is None:
        raise ValueError("there is no map to draw")
    options = drawing.options(heat, display, together)
    key = side, tuple(sorted(options.items()))
    if key not in cell.pictures:
        cell.pictures[key] = _jpeg(overlay(heat, width=_width(heat, side), **options))
    return cell.pictures[key]


def _width(heat: HeatMap, side: int) -> int:
    height, width = heat.photo.height, heat.photo.width
    return max(1, round(width * side / max(height, width)))


def _jpeg(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
