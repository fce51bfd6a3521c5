"""The Anatomy tab: the model step by step on the photo, and below it what such a model costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app.anatomy_pieces import PATCH
from app.fields import Menu, Slider
from explainers.views.steps import STEPS

SCRIPT = Path(__file__).with_name("theme") / "anatomy.js"

LATEX = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "$", "right": "$", "display": False},
]


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
