"""The Anatomy tab: the model step by step on the photo, and below it what such a model costs."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from app import anatomy_answer, anatomy_block, anatomy_tokens
from app.anatomy_pieces import PATCH, Shown, View, paragraph, said
from app.fields import Menu, Slider
from app.texts import say
from explainers.render.strips import picture_size
from explainers.trace import Trace
from explainers.views.anatomy import Anatomy
from explainers.views.steps import ANSWER, BLOCK, FORMULAS, STEPS, TOKENS

SCRIPT = Path(__file__).with_name("theme") / "anatomy.js"

MAKE = {
    step: getattr(module, step)
    for module, steps in (
        (anatomy_tokens, TOKENS),
        (anatomy_block, BLOCK),
        (anatomy_answer, ANSWER),
    )
    for step in steps
}
"""Step → the function that draws it."""

HEADS = ("scores", "softmax", "values")
NO_PATCH = ("photo", "head", "logits")
LATEX = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "$", "right": "$", "display": False},
]
NAMED = 8
"""Prefix tokens that the menu of asking tokens offers at most."""


@dataclass
class AnatomyTab:
    """The widgets of the steps. watch: asks for the tab's contents once it is seen."""

    watch: gr.HTML
    steps: gr.Radio
    back: gr.Button
    forward: gr.Button
    count: gr.HTML
    area: gr.Column
    picture: gr.Image
    under: gr.HTML
    places: gr.Row
    row: gr.Number
    column: gr.Number
    asks: gr.Dropdown
    block: gr.Slider
    head: gr.Slider
    text: gr.HTML
    formula: gr.Markdown
    detail: gr.HTML
    worked: gr.Markdown
    notes: gr.HTML

    @property
    def chosen(self) -> list[Any]:
        """What decides what is drawn, in the order of `view`'s arguments."""
        return [self.steps, self.row, self.column, self.block, self.head, self.asks]

    @property
    def outputs(self) -> list[Any]:
        """In the order of the lists that `message` and `ready` return."""
        return [
            *(self.watch, self.area, self.count, self.picture, self.under),
            *(self.places, self.row, self.column, self.asks, self.block, self.head),
            *(self.text, self.formula, self.detail, self.worked, self.notes),
        ]


def build(t: gr.I18n) -> AnatomyTab:
    """Lay the steps out: picture and what is chosen at the left, the step's numbers beside it."""
    gr.HTML(t("anatomy_intro"), elem_classes="vs-intro")
    watch = gr.HTML(
        value=None,
        html_template="<p class='vs-anatomy-message' role='status'></p>",
        js_on_load=SCRIPT.read_text(encoding="utf-8"),
        elem_id="vs-anatomy-watch",
    )
    steps = gr.Radio(
        [(t(f"anatomy_title_{step}"), menu_value(step)) for step in STEPS],
        value=menu_value(STEPS[0]),
        label=t("anatomy_steps"),
        elem_id="vs-anatomy-steps",
        elem_classes="vs-steps",
    )
    with gr.Column(elem_id="vs-anatomy", elem_classes="vs-anatomy", visible=False) as area:
        with gr.Row(elem_classes="vs-anatomy-bar"):
            back = gr.Button(t("anatomy_back"), size="sm", min_width=80, elem_id="vs-anatomy-back")
            count = gr.HTML(elem_classes="vs-anatomy-count")
            forward = gr.Button(
                t("anatomy_next"),
                size="sm",
                min_width=80,
                variant="primary",
                elem_id="vs-anatomy-next",
            )
        with gr.Row(elem_classes="vs-anatomy-step", equal_height=False):
            with gr.Column(min_width=280, elem_classes="vs-card"):
                picture = gr.Image(
                    format="png",
                    interactive=False,
                    show_label=False,
                    buttons=["download", "fullscreen"],
                    elem_id="vs-anatomy-picture",
                    elem_classes="vs-sheet",
                )
                under = gr.HTML(elem_classes="vs-text")
                with gr.Row(elem_classes="vs-anatomy-places") as places:
                    row = _number(t("anatomy_row"))
                    column = _number(t("anatomy_column"))
                asks = Menu(
                    [(t("anatomy_asks_patch"), PATCH)],
                    value=PATCH,
                    label=t("anatomy_asks"),
                    filterable=False,
                    elem_id="vs-anatomy-asks",
                )
                block = _slider(t("anatomy_block"), "vs-anatomy-block")
                head = _slider(t("anatomy_head"), "vs-anatomy-head")
            with gr.Column(min_width=280, elem_classes="vs-card"):
                text = gr.HTML(elem_classes="vs-anatomy-text")
                formula = gr.Markdown(latex_delimiters=LATEX, elem_classes="vs-formula")
                detail = gr.HTML(elem_classes="vs-text")
                worked = gr.Markdown(latex_delimiters=LATEX, elem_classes="vs-formula")
                notes = gr.HTML(elem_classes="vs-text")
    return AnatomyTab(
        watch,
        *(steps, back, forward, count, area, picture, under, places, row, column),
        *(asks, block, head, text, formula, detail, worked, notes),
    )


def menu_value(step: str) -> str:
    """A step's value in the menu. Not the bare name: Gradio takes "photo" for the key of a text
    and sends its translation."""
    return f"step_{step}"


def step_of(value: Any) -> str:
    """The step of a value of the menu, or of its bare name; the first one for anything else."""
    step = str(value).removeprefix("step_")
    return step if step in STEPS else STEPS[0]


def _number(label: Any) -> gr.Number:
    return gr.Number(value=None, precision=0, step=1, label=label, min_width=90)


def _slider(label: Any, name: str) -> gr.Slider:
    return Slider(0, 1, value=None, step=1, label=label, elem_id=name, buttons=[])


def message(state: str, text: str = "") -> list[Any]:
    """There is no photo, the model is at work, or the tab has nothing to show, and why."""
    value = {"state": state, "message": text}
    area = gr.skip() if state == "loading" else gr.update(visible=False)
    return [value, area, *[gr.skip()] * 14]


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
