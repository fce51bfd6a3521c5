"""The Compare tab: what is compared, the table of maps, two of them under one slider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import example_photos, figure_panel
from app.comparison import CHOSEN, MODELS, RANKS
from app.fields import Menu
from app.figure_panel import FigurePanel
from app.files import PhotoFiles
from app.texts import language
from explainers.registry import DEFAULT_METHODS, Method

_PICK = """
element.addEventListener('click', event => {
  const button = event.target.closest('button[data-cell]');
  if (button) trigger('pick', {cell: Number(button.dataset.cell)});
});
"""

_SLIDE = """
element.addEventListener('input', event => {
  const stage = event.target.closest('.vs-stage');
  if (stage) stage.style.setProperty('--cut', event.target.value + '%');
});
"""


@dataclass
class CompareTab:
    """The widgets of the tab."""

    models: gr.Dropdown
    methods: gr.Dropdown
    classes: gr.Dropdown
    examples: gr.Dropdown
    files: gr.File
    scale: gr.Radio
    go: gr.Button
    cancel: gr.Button
    status: gr.HTML
    table: gr.HTML
    results: gr.Column
    left: gr.Dropdown
    right: gr.Dropdown
    slide: gr.HTML
    signed: gr.HTML
    agreed: gr.HTML
    numbers: gr.Button
    recipe: gr.Button
    figure: FigurePanel

    @property
    def given(self) -> list[Any]:
        """What is to be compared: models, methods, classes, examples, files, and the scale."""
        return [self.models, self.methods, self.classes, self.examples, self.files, self.scale]


def build(t: gr.I18n, methods: Mapping[str, Method], menu: Sequence[tuple[str, str]]) -> CompareTab:
    """Lay the tab out: the choices at the left, the maps beside them, on a phone below."""
    gr.HTML(t("compare_intro"), elem_classes="vs-intro")
    with gr.Row(elem_classes="vs-explain", equal_height=False):
        with gr.Column(elem_classes="vs-methods", min_width=260):
            with gr.Row(elem_classes="vs-tight"):
                go = gr.Button(
                    t("compare_go"), variant="primary", elem_id="vs-compare-go", min_width=100
                )
                cancel = gr.Button(
                    t("cancel"),
                    variant="stop",
                    interactive=False,
                    elem_id="vs-compare-cancel",
                    min_width=100,
                )
            chosen_models = gr.Dropdown(
                list(menu),
                value=[],
                multiselect=True,
                max_choices=MODELS,
                allow_custom_value=True,
                label=t("compare_models"),
                info=t("compare_models_info"),
                elem_id="vs-compare-models",
            )
            chosen_methods = gr.Dropdown(
                [(t(f"tick.{name}"), name) for name in methods],
                value=list(DEFAULT_METHODS),
                multiselect=True,
                label=t("compare_methods"),
                elem_id="vs-compare-methods",
            )
            classes = gr.Dropdown(
                [(t("compare_chosen"), CHOSEN)]
                + [(t(f"compare_rank_{rank + 1}"), aim) for aim, rank in RANKS.items()],
                value=[CHOSEN],
                multiselect=True,
                allow_custom_value=True,
                label=t("compare_classes"),
                info=t("compare_classes_info"),
                elem_id="vs-compare-classes",
            )
            examples = gr.Dropdown(
                example_choices("en"),
                value=[],
                multiselect=True,
                label=t("compare_examples"),
                info=t("compare_examples_info"),
                elem_id="vs-compare-examples",
            )
            files = PhotoFiles(
                file_count="multiple",
                file_types=["image"],
                label=t("compare_files"),
                height=150,
                elem_id="vs-compare-files",
            )
            scale = gr.Radio(
                [(t("compare_own"), "own"), (t("compare_shared"), "shared")],
                value="own",
                label=t("compare_scale"),
                elem_id="vs-compare-scale",
            )
            gr.HTML(t("compare_drawn"), elem_classes="vs-notes")
        with gr.Column(elem_classes="vs-main", min_width=300):
            status = gr.HTML(elem_classes="vs-status", elem_id="vs-compare-status")
            table = gr.HTML(
                t("compare_empty"),
                js_on_load=_PICK,
                elem_id="vs-compare-table",
                elem_classes=["vs-text", "vs-compared"],
            )
            with gr.Column(visible=False, elem_classes="vs-results") as results:
                with gr.Row(elem_classes=["vs-cards", "vs-inside"], equal_height=False):
                    with gr.Column(elem_classes="vs-card", min_width=280):
                        gr.HTML(t("compare_pair"), elem_classes="vs-heading")
                        with gr.Row(elem_classes="vs-tight"):
                            left, right = (
                                Menu(
                                    [],
                                    value=None,
                                    label=t(f"compare_{side}"),
                                    elem_id=f"vs-compare-{side}",
                                    min_width=120,
                                )
                                for side in ("left", "right")
                            )
                        slide = gr.HTML(
                            js_on_load=_SLIDE, elem_classes="vs-text", elem_id="vs-compare-slide"
                        )
                    with gr.Column(elem_classes="vs-card", min_width=280):
                        gr.HTML(t("compare_difference"), elem_classes="vs-heading")
                        signed = gr.HTML(elem_classes="vs-text", elem_id="vs-compare-difference")
                with gr.Column(elem_classes="vs-card"):
                    gr.HTML(t("compare_agreement"), elem_classes="vs-heading")
                    agreed = gr.HTML(elem_classes="vs-text", elem_id="vs-compare-agreement")
                with gr.Row(elem_classes="vs-tight"):
                    numbers = gr.Button(t("save_all"), size="sm", elem_id="vs-compare-numbers")
                    recipe = gr.Button(t("save_recipe"), size="sm", elem_id="vs-compare-recipe")
                figure = figure_panel.build(t, "vs-compare-figure")
    return CompareTab(
        models=chosen_models,
        methods=chosen_methods,
        classes=classes,
        examples=examples,
        files=files,
        scale=scale,
        go=go,
        cancel=cancel,
        status=status,
        table=table,
        results=results,
        left=left,
        right=right,
        slide=slide,
        signed=signed,
        agreed=agreed,
        numbers=numbers,
        recipe=recipe,
        figure=figure,
    )


def example_choices(lang: str) -> list[tuple[str, int]]:
    """(title, number) of the example photos."""
    code = language(lang)
    return [(entry["title"][code], n) for n, entry in enumerate(example_photos.entries())]
