"""The ViT paper's figure 7 on the page: a set of photos, a button, the figure and its caption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import example_photos, figure_result
from app.compare_tab import example_choices
from app.figure_result import FigureResult
from app.files import PhotoFiles
from explainers.render.layout import SUFFIXES

WIDTH = 183
"""Millimetres: the text's width in many journals."""


@dataclass
class Figure7Panel:
    """The widgets of the panel."""

    examples: gr.Dropdown
    files: gr.File
    width: gr.Number
    kind: gr.Radio
    make: gr.Button
    cancel: gr.Button
    status: gr.HTML
    result: FigureResult

    @property
    def given(self) -> list[Any]:
        """Numbers of example photos, uploaded files, the figure's width and kind."""
        return [self.examples, self.files, self.width, self.kind]

    @property
    def outputs(self) -> list[Any]:
        """What the making of a figure changes."""
        return [self.status, self.make, self.cancel, *self.result.outputs]


def build(t: gr.I18n) -> Figure7Panel:
    """Lay the panel out: photos and buttons above, the figure below them."""
    with gr.Column(elem_classes="vs-card", elem_id="vs-figure7"):
        gr.HTML(t("figure7_title"), elem_classes="vs-heading")
        gr.HTML(t("figure7_intro"), elem_classes="vs-notes")
        examples = gr.Dropdown(
            example_choices("en"),
            value=list(range(len(example_photos.entries()))),
            multiselect=True,
            label=t("compare_examples"),
            elem_id="vs-figure7-examples",
        )
        with gr.Row(elem_classes="vs-form"):
            files = PhotoFiles(
                file_count="multiple",
                file_types=["image"],
                label=t("compare_files"),
                height=150,
                min_width=220,
                elem_id="vs-figure7-files",
            )
            width = gr.Number(WIDTH, label=t("figure_width"), min_width=90)
            kind = gr.Radio(
                [(suffix[1:].upper(), suffix) for suffix in SUFFIXES],
                value=SUFFIXES[0],
                label=t("figure_format"),
                min_width=200,
            )
        with gr.Row(elem_classes="vs-tight"):
            make = gr.Button(
                t("figure_make"), variant="primary", size="sm", elem_id="vs-figure7-make"
            )
            cancel = gr.Button(
                t("cancel"),
                variant="stop",
                size="sm",
                interactive=False,
                elem_id="vs-figure7-cancel",
            )
        status = gr.HTML(elem_classes="vs-text", elem_id="vs-figure7-status")
        result = figure_result.build(t, "vs-figure7")
    return Figure7Panel(
        examples=examples,
        files=files,
        width=width,
        kind=kind,
        make=make,
        cancel=cancel,
        status=status,
        result=result,
    )
