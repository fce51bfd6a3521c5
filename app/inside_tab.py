"""Inside the model: what it has learned whatever the photo: its filters, its sense of place."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr
from PIL import Image

from app import figure7_panel
from app.chart_words import chart_words
from app.errors import explain_error
from app.figure7_panel import Figure7Panel
from app.texts import say
from explainers.models.vision_model import VisionModel
from explainers.views.figure7 import COMPONENTS
from explainers.views.filters import principal, raw
from explainers.views.positions import position_similarity


@dataclass
class InsideTab:
    """The widgets of the tab; each view has a picture and a text under it."""

    filters: gr.Image
    filters_text: gr.HTML
    components: gr.Image
    components_text: gr.HTML
    count: gr.Slider
    positions: gr.Image
    positions_text: gr.HTML
    figure: Figure7Panel

    def outputs(self) -> list[gr.components.Component]:
        """In the order of `show`'s result."""
        return [
            self.filters,
            self.filters_text,
            self.components,
            self.components_text,
            self.positions,
            self.positions_text,
        ]


def build(t: gr.I18n) -> InsideTab:
    """Lay the tab out: three views side by side, on a phone one below the other; figure 7."""
    gr.HTML(t("inside_intro"), elem_classes="vs-intro")
    with gr.Row(elem_classes=["vs-cards", "vs-inside"], equal_height=False):
        with gr.Column(elem_classes="vs-card", min_width=280):
            gr.HTML(t("filters_title"), elem_classes="vs-heading")
            filters, filters_text = view("vs-filters")
        with gr.Column(elem_classes="vs-card", min_width=280):
            gr.HTML(t("components_title"), elem_classes="vs-heading")
            components, components_text = view("vs-components")
            count = gr.Slider(1, 64, value=COMPONENTS, step=1, label=t("components_count"))
        with gr.Column(elem_classes="vs-card", min_width=280):
            gr.HTML(t("positions_title"), elem_classes="vs-heading")
            positions, positions_text = view("vs-positions")
    figure = figure7_panel.build(t)
    return InsideTab(
        filters, filters_text, components, components_text, count, positions, positions_text, figure
    )


def view(elem_id: str) -> tuple[gr.Image, gr.HTML]:
    """A picture that can be enlarged and saved, and the text under it."""
    image = gr.Image(
        format="png",
        interactive=False,
        show_label=False,
        buttons=["download", "fullscreen"],
        elem_id=elem_id,
        elem_classes="vs-sheet",
    )
    return image, gr.HTML(elem_classes="vs-text")


def show(lang: str, vit: VisionModel, count: int) -> list[Any]:
    """Updates for `InsideTab.outputs`: the views of a model, or why it has none."""
    return [*_filters(lang, vit), *components(lang, vit, count), *_positions(lang, vit)]


def loading(lang: str) -> list[Any]:
    """Updates for `InsideTab.outputs` while the model is still being loaded."""
    state = f"<p class='vs-state'>{escape(say(lang, 'status_loading'))}</p>"
    return [gr.skip(), state] * 3


def components(lang: str, vit: VisionModel, count: int) -> list[Any]:
    """Updates for the principal components alone, when their number changes."""
    try:
        grid = principal(vit, int(count))
    except ValueError as error:
        return _none(lang, error)
    explained = 0.0 if grid.variance is None else float(grid.variance.sum())
    text = say(
        lang,
        "components_text",
        count=len(grid.filters),
        total=grid.total,
        percent=f"{100 * explained:.0f}",
    )
    from explainers.render.charts import filter_sheet  # matplotlib is slow to import

    return _shown(filter_sheet(grid), text)


def _filters(lang: str, vit: VisionModel) -> list[Any]:
    try:
        grid = raw(vit)
    except ValueError as error:
        return _none(lang, error)
    from explainers.render.charts import filter_sheet

    _, height, width, _ = grid.filters.shape
    text = say(lang, "filters_text", count=grid.total, height=height, width=width)
    return _shown(filter_sheet(grid), text)


def _positions(lang: str, vit: VisionModel) -> list[Any]:
    try:
        similarity = position_similarity(vit)
    except ValueError as error:
        return _none(lang, error)
    from explainers.render.charts import position_sheet

    rows, columns = similarity.grid
    return _shown(
        position_sheet(similarity, words=chart_words(lang)),
        say(lang, "positions_text", rows=rows, columns=columns),
    )


def _shown(picture: Image.Image, text: str) -> list[Any]:
    return [gr.update(value=picture, visible=True, alt_text=text), f"<p>{escape(text)}</p>"]


def _none(lang: str, error: Exception) -> list[Any]:
    reason = escape(explain_error(lang, error))
    return [gr.update(value=None, visible=False), f"<p class='vs-refused'>{reason}</p>"]
