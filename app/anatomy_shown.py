"""A step of the Anatomy tab drawn: what is chosen brought into range, pictures and numbers."""

from __future__ import annotations

from html import escape
from typing import Any

import gradio as gr

from app import anatomy_answer, anatomy_attention, anatomy_block, anatomy_tokens
from app.anatomy_pieces import PATCH, Shown, View, paragraph, said
from app.anatomy_tab import step_of
from app.texts import say
from explainers.render.strips import picture_size
from explainers.trace import Trace
from explainers.views.anatomy import Anatomy
from explainers.views.steps import ANSWER, BLOCK, FORMULAS, STEPS, TOKENS

HEADS = ("scores", "softmax", "values")
"""Steps in which every head does something else."""

MAKE = {
    step: getattr(module, step)
    for module, steps in (
        (anatomy_tokens, TOKENS),
        (anatomy_attention, HEADS),
        (anatomy_block, [step for step in BLOCK if step not in HEADS]),
        (anatomy_answer, ANSWER),
    )
    for step in steps
}
"""Step → the function that draws it."""

NO_PATCH = ("photo", "head", "logits")

NAMED = 8
"""Prefix tokens that the menu of asking tokens offers at most."""


def view(
    lang: str,
    anatomy: Anatomy,
    row: Any,
    column: Any,
    block: Any,
    head: Any,
    asks: Any,
) -> View:
    """What is chosen, brought into the model's ranges.

    Where nothing is chosen: the middle patch, and the last block but one, whose patches still
    reach the answer."""
    trace = anatomy.trace
    rows, columns = trace.grid
    if not row:  # nothing was drawn yet, and the fields stand at their low ends
        row = column = block = None
    names = trace.model.adapter.prefix_names[:NAMED]
    return View(
        lang,
        anatomy,
        _within(row, rows, rows // 2 + 1, first=1) - 1,
        _within(column, columns, columns // 2 + 1, first=1) - 1,
        _within(block, trace.depth - 1, max(0, trace.depth - 2)),
        _within(head, trace.heads - 1, 0),
        asks if asks in {str(i) for i in range(len(names))} else PATCH,
    )


def ready(lang: str, anatomy: Anatomy, step: Any, chosen: tuple[Any, ...]) -> list[Any]:
    """Updates for `AnatomyTab.outputs`: a step drawn, or why this model has none of it."""
    step = step_of(step)
    now = view(lang, anatomy, *chosen)
    support = anatomy.support(step)
    if support:
        shown: Shown = MAKE[step](now)
    else:
        refused = paragraph(said(now, support.reason or ""), "vs-refused")
        shown = Shown(now.picture(), say(lang, "anatomy_refused_alt"), detail=refused)
    trace, index = anatomy.trace, STEPS.index(step)
    names = list(trace.model.adapter.prefix_names[:NAMED])
    menu = [(now.say("anatomy_asks_patch"), PATCH)]
    menu += [(now.name(i), str(i)) for i in range(len(names))]
    place, in_block = step not in NO_PATCH, step in BLOCK
    count = say(lang, "anatomy_count", number=index + 1, total=len(STEPS))
    title = say(lang, f"anatomy_title_{step}")
    notes = "".join(paragraph(said(now, note), "vs-note") for note in shown.notes)
    return [
        {"state": "ready", "step": step, "title": f"{count}: {title}"},
        gr.update(visible=True),
        f"<p>{escape(count)}</p>",
        gr.update(value=shown.picture, alt_text=shown.alt),
        shown.under,
        gr.update(visible=place),
        gr.update(value=now.row + 1),
        gr.update(value=now.column + 1),
        gr.update(choices=menu, value=now.asks, visible=in_block),
        _range(now.block, trace.depth, in_block or step == "blocks"),
        _range(now.head, trace.heads, step in HEADS),
        f"<h3>{escape(title)}</h3>{paragraph(say(lang, f'anatomy_text_{step}', **_facts(now)))}",
        f"$${FORMULAS[step]}$$",
        shown.detail,
        shown.worked,
        notes,
    ]


def _range(value: int, size: int, visible: bool) -> dict[str, Any]:
    return gr.update(value=value, maximum=max(1, size - 1), visible=visible and size > 1)


def _facts(now: View) -> dict[str, object]:
    """The values that a step's text may name."""
    trace: Trace = now.trace
    (rows, columns), (ph, pw) = trace.grid, trace.model.adapter.patch
    _, height, width = now.anatomy.pixels.shape
    call = trace.calls[now.block] if trace.calls else None
    return {
        "height": height,
        "width": width,
        "rows": rows,
        "columns": columns,
        "patch_height": ph,
        "patch_width": pw,
        "flat": ph * pw * 3,
        "count": rows * columns,
        "prefix": trace.prefix,
        "block": now.block,
        "head": now.head,
        "heads": trace.heads,
        "depth": trace.depth,
        "size": "?" if call is None else call.q.shape[-1],
        "classes": trace.model.classes,
        "token": now.name(now.query),
    }


def _within(value: Any, last: int, default: int, first: int = 0) -> int:
    """A number that anybody may have sent, as a whole one in first … last."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return min(max(number, first), last)


def patch_at(anatomy: Anatomy, x: float, y: float) -> tuple[int, int]:
    """The row and column (from 1) of the patch at a point of the step's picture, in its pixels."""
    rows, columns = anatomy.trace.grid
    width, height = picture_size(anatomy.trace.grid)
    return (
        _within(y * rows / height + 1, rows, 1, first=1),
        _within(x * columns / width + 1, columns, 1, first=1),
    )
