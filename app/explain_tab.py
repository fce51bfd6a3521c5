"""The Explain tab: which methods, how they are drawn, and a card for each one's map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import figure_panel, glance, settings
from app.figure_panel import FigurePanel
from app.settings import Place
from explainers.registry import DEFAULT_METHODS, Method
from explainers.render.colours import SIGNED, UNSIGNED

QUESTIONS = ("look", "counted", "without", "sees")

_FOLD_ON_PHONES = """
if (matchMedia('(max-width: 860px)').matches) {
  let tries = 30;  // the fold may come later than this, and hear no click at first
  const close = () => {
    const fold = document.querySelector('.vs-methods-fold > button');
    if (fold && !fold.classList.contains('open')) return;
    fold?.click();
    if (tries--) setTimeout(close, 100);
  };
  requestAnimationFrame(close);
}
"""
"""Where the methods stand above the maps they would push the maps off the screen."""


@dataclass
class Card:
    """One method's place on the page."""

    box: gr.Column
    image: gr.Image
    baseline: gr.Image | None
    baseline_box: gr.Row | None
    text: gr.HTML
    measure: gr.HTML
    test: gr.Accordion
    curve: gr.HTML
    checks: gr.HTML
    check: gr.Button
    save: gr.Button
    controls: dict[str, Any]
    """The method's own settings: parameter → its control."""


@dataclass
class ExplainTab:
    """The widgets of the tab. groups: question → its methods to tick."""

    groups: dict[str, gr.CheckboxGroup]
    go: gr.Button
    cancel: gr.Button
    status: gr.HTML
    cards: dict[str, Card]
    display: list[Any]
    """In the order of `Display`'s fields: opacity, unsigned, signed, style, range, smooth."""
    legend: gr.Checkbox
    """Whether a map is saved with its title and colour bar."""
    save_all: gr.Button
    save_recipe: gr.Button
    figure: FigurePanel
    hint: gr.HTML
    glance: gr.Accordion
    glance_strip: gr.HTML
    shape: gr.HTML
    """Carries the photo's proportions to the style sheet."""

    @property
    def controls(self) -> dict[Place, Any]:
        """The settings of all methods, in the order of `settings.places`."""
        return {
            (name, parameter): control
            for name, card in self.cards.items()
            for parameter, control in card.controls.items()
        }


def build(t: gr.I18n, methods: Mapping[str, Method]) -> ExplainTab:
    """Lay the tab out: methods at the left, maps in the middle, drawing options below left."""
    with gr.Row(elem_classes="vs-explain", equal_height=False):
        with gr.Column(elem_classes="vs-methods", min_width=260):
            with gr.Row(elem_classes="vs-tight"):
                go = gr.Button(t("go"), variant="primary", elem_id="vs-go", min_width=100)
                cancel = gr.Button(
                    t("cancel"),
                    variant="stop",
                    interactive=False,
                    elem_id="vs-cancel",
                    min_width=100,
                )
            with gr.Accordion(t("methods_choice"), open=True, elem_classes="vs-methods-fold"):
                groups = _method_groups(t, methods)
            save_all = gr.Button(t("save_all"), elem_id="vs-save-all", interactive=False, size="sm")
            save_recipe = gr.Button(
                t("save_recipe"), elem_id="vs-save-recipe", interactive=False, size="sm"
            )
        with gr.Column(elem_classes="vs-main", min_width=300):
            status = gr.HTML(elem_classes="vs-status", elem_id="vs-status")
            shape = gr.HTML(elem_classes="vs-shape", js_on_load=_FOLD_ON_PHONES)
            hint = gr.HTML(t("explain_empty"), elem_classes="vs-empty", elem_id="vs-hint")
            glance_box, strip = glance.panel(t)
            with gr.Row(elem_classes="vs-cards"):
                cards = {name: _card(t, method) for name, method in methods.items()}
            figure = figure_panel.build(t, "vs-figure")
        with gr.Column(elem_classes="vs-options", min_width=260):
            display = _display(t)
            legend = gr.Checkbox(True, label=t("save_legend"), elem_id="vs-save-legend")
    return ExplainTab(
        groups=groups,
        go=go,
        cancel=cancel,
        status=status,
        cards=cards,
        display=display,
        legend=legend,
        save_all=save_all,
        save_recipe=save_recipe,
        figure=figure,
        hint=hint,
        glance=glance_box,
        glance_strip=strip,
        shape=shape,
    )


def _method_groups(t: gr.I18n, methods: Mapping[str, Method]) -> dict[str, gr.CheckboxGroup]:
    groups = {}
    for question in QUESTIONS:
        names = [name for name, method in methods.items() if method.question == question]
        if names:
            groups[question] = gr.CheckboxGroup(
                [(t(f"tick.{name}"), name) for name in names],
                value=[name for name in names if name in DEFAULT_METHODS],
                label=t(f"question_{question}"),
                elem_classes="vs-group",
            )
    return groups


def _card(t: gr.I18n, method: Method) -> Card:
    with gr.Column(
        visible=False, elem_classes="vs-card", elem_id=f"vs-card-{method.name}", min_width=240
    ) as box:
        gr.HTML(f"<h3>{t(f'method.{method.name}')}</h3>", elem_classes="vs-title")
        image = gr.Image(
            format="png",
            interactive=False,
            show_label=False,
            buttons=["fullscreen"],
            elem_classes="vs-map",
        )
        text = gr.HTML(elem_classes="vs-text")
        baseline = baseline_box = None
        if settings.baseline_of(method):
            with gr.Row(visible=False, elem_classes="vs-nothing") as baseline_box:
                baseline = gr.Image(
                    format="png",
                    interactive=False,
                    show_label=False,
                    container=False,
                    buttons=[],
                    height=56,
                    elem_classes="vs-baseline",
                )
                gr.HTML(t("baseline"), elem_classes="vs-text")
        measure = gr.HTML(elem_classes="vs-text vs-measure")
        with gr.Accordion(t("test"), open=False, visible=False, elem_classes="vs-fold") as test:
            curve = gr.HTML(elem_classes="vs-text")
            checks = gr.HTML(elem_classes="vs-text")
            check = gr.Button(t("check"), size="sm")
        controls = {}
        if method.parameters:
            with gr.Accordion(t("settings"), open=False, elem_classes="vs-fold vs-settings"):
                for parameter in method.parameters:
                    controls[parameter.name] = settings.control(t, method, parameter)
        save = gr.Button(t("save_one"), size="sm", interactive=False)
    return Card(
        box=box,
        image=image,
        baseline=baseline,
        baseline_box=baseline_box,
        text=text,
        measure=measure,
        test=test,
        curve=curve,
        checks=checks,
        check=check,
        save=save,
        controls=controls,
    )


def _display(t: gr.I18n) -> list[Any]:
    with gr.Accordion(t("display"), open=True):
        opacity = gr.Slider(0, 1, value=0.55, step=0.05, label=t("opacity"))
        style = gr.Radio(
            [(t(f"style_{name}"), name) for name in ("overlay", "map", "contour")],
            value="overlay",
            label=t("style"),
        )
        unsigned = gr.Dropdown(list(UNSIGNED), value=UNSIGNED[0], label=t("colours_unsigned"))
        signed = gr.Dropdown(list(SIGNED), value=SIGNED[0], label=t("colours_signed"))
        extent = gr.Dropdown(
            [(t(f"range_{name}"), name) for name in ("own", "shared", "minmax", "percentile")],
            value="own",
            label=t("range"),
        )
        smooth = gr.Checkbox(False, label=t("smooth"), info=t("smooth_info"))
    return [opacity, unsigned, signed, style, extent, smooth]
