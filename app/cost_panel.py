"""Below the Anatomy tab's steps: what such a model costs, and how far its layers see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr
import numpy as np

from app import cost_words
from app.chart_words import chart_words
from app.cost_words import billions, size
from app.inside_tab import view
from app.texts import say
from explainers.views.cost import Shape, convolution_reach, cost, with_patch
from explainers.views.timing import Timing, speed

CELLS = (4, 8, 12, 16, 24, 32)
"""Patches a side of the photos that are timed."""


@dataclass
class CostPanel:
    """The widgets. shape_of: the model whose sizes the numbers were last set to."""

    height: gr.Number
    width: gr.Number
    patch: gr.Number
    shape_of: gr.State
    figures: gr.HTML
    chart: gr.Image
    chart_text: gr.HTML
    measure: gr.Button
    cancel: gr.Button
    progress: gr.HTML
    times: gr.Image
    reach: gr.Image
    reach_text: gr.HTML
    advice: gr.HTML

    @property
    def sizes(self) -> list[gr.Number]:
        return [self.height, self.width, self.patch]

    @property
    def outputs(self) -> list[Any]:
        """In the order of `shown`'s result."""
        return [
            *(*self.sizes, self.shape_of, self.figures, self.chart, self.chart_text, self.advice),
        ]


def build(t: gr.I18n) -> CostPanel:
    """Lay the panel out: sizes, then figures, charts and advice as cards."""
    gr.HTML(t("cost_title"), elem_classes="vs-heading vs-cost-title")
    gr.HTML(t("cost_intro"), elem_classes="vs-intro")
    with gr.Row(elem_classes="vs-cost-sizes"):
        height = _pixels(t("cost_height"), "vs-cost-height")
        width = _pixels(t("cost_width"), "vs-cost-width")
        patch = _pixels(t("cost_patch_side"), "vs-cost-patch")
    with gr.Row(elem_classes=["vs-cards", "vs-inside"], equal_height=False):
        with gr.Column(elem_classes="vs-card", min_width=280):
            figures = gr.HTML(elem_classes="vs-text", elem_id="vs-cost-figures")
            advice = gr.HTML(elem_classes="vs-text")
        with gr.Column(elem_classes="vs-card", min_width=280):
            gr.HTML(t("cost_chart_title"), elem_classes="vs-heading")
            chart, chart_text = view("vs-cost-chart")
            with gr.Row():
                measure = gr.Button(t("cost_measure"), size="sm", elem_id="vs-cost-measure")
                cancel = gr.Button(t("cancel"), size="sm", visible=False, elem_id="vs-cost-cancel")
            progress = gr.HTML(elem_classes="vs-text", elem_id="vs-cost-progress")
            times = gr.Image(
                format="png",
                interactive=False,
                show_label=False,
                visible=False,
                buttons=["download", "fullscreen"],
                elem_id="vs-cost-times",
                elem_classes="vs-sheet",
            )
        with gr.Column(elem_classes="vs-card", min_width=280):
            gr.HTML(t("cost_reach_title"), elem_classes="vs-heading")
            reach, reach_text = view("vs-cost-reach")
    return CostPanel(
        *(height, width, patch, gr.State(None), figures, chart, chart_text),
        *(measure, cancel, progress, times, reach, reach_text, advice),
    )


def _pixels(label: Any, name: str) -> gr.Number:
    return gr.Number(value=None, precision=0, step=1, label=label, min_width=110, elem_id=name)


def shown(
    lang: str, name: str, shape: Shape, height: int, width: int, patch: int, reset: bool
) -> list[Any]:
    """Updates for `CostPanel.outputs`. ValueError where the sizes do not go together.

    reset: the sizes are the model's own now, not what stands in the fields.
    """
    from explainers.render.cost_chart import cost_chart  # matplotlib is slow to import

    shape = with_patch(shape, patch)
    found = cost(shape, height, width)
    text = say(
        lang,
        "cost_chart_text",
        patch=patch,
        tokens=found.tokens,
        operations=billions(found.operations),
        memory=size(found.matrices),
    )
    fields = [height, width, patch] if reset else [gr.skip()] * 3
    return [
        *fields,
        name,
        cost_words.figures(lang, shape, found, height, width),
        gr.update(value=cost_chart(shape, height, width, chart_words(lang)), alt_text=text),
        f"<p>{escape(text)}</p>",
        cost_words.advice(lang, shape, found, height, width),
    ]


def reach(lang: str, depth: int, side: int, distances: np.ndarray | None) -> list[Any]:
    """Updates for the picture of how far layers see, and its text."""
    from explainers.render.cost_chart import reach_chart

    text = say(
        lang,
        "cost_reach_text",
        layers=depth,
        pixels=convolution_reach(depth)[-1],
        needed=-(-(side - 1) // 2),
        side=side,
    )
    if distances is not None:
        text += " " + say(
            lang,
            "cost_reach_measured",
            first=f"{distances[0].mean():.0f}",
            nearest=f"{distances[0].min():.0f}",
            furthest=f"{distances[0].max():.0f}",
            last=f"{distances[-1].mean():.0f}",
        )
    picture = reach_chart(depth, side, distances, chart_words(lang))
    return [gr.update(value=picture, alt_text=text), f"<p>{escape(text)}</p>"]


def measured(lang: str, shape: Shape, timings: Sequence[Timing]) -> list[Any]:
    """Updates for the text and the picture of the times measured here."""
    from explainers.render.cost_chart import time_chart

    rate = speed(shape, timings)
    rows = []
    for timing in timings:
        expected = cost(shape, timing.side, timing.side)
        rows.append(
            f"<tr><th scope='row'>{timing.side} px{'' if timing.own else ' *'}</th>"
            f"<td>{expected.tokens:,}</td><td>{1000 * expected.operations / rate:.1f} ms</td>"
            f"<td>{1000 * timing.seconds:.1f} ms</td></tr>"
        )
    heads = "".join(
        f"<th scope='col'>{escape(say(lang, key))}</th>"
        for key in ("cost_side", "cost_tokens", "cost_predicted", "cost_measured")
    )
    text = say(lang, "cost_measured_text", rate=billions(rate))
    if not all(timing.own for timing in timings):
        text += " " + say(lang, "cost_twin")
    table = f"<table class='vs-lens'><tr>{heads}</tr>{''.join(rows)}</table>"
    picture = gr.update(
        value=time_chart(shape, timings, chart_words(lang)), visible=True, alt_text=text
    )
    return [f"<p>{escape(text)}</p>{table}", picture]
