"""Events of a figure builder: the figure, its caption and the papers it owes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import gradio as gr
from PIL import Image

from app import figure_panel, handlers
from app.errors import guard
from app.figure_panel import FigurePanel, Wanted
from app.widgets import QUIET, Widgets
from explainers.models.labels import short
from explainers.registry import methods
from explainers.render.captions import bibtex, caption_text
from explainers.render.layout import Layout
from explainers.render.plate import Panel, heats_of, plate_bytes

PREVIEW = 1200
"""The most pixels of the preview's width."""

Panels = Callable[[gr.Request, tuple[Any, ...], bool], list[Panel]]
"""(request, values of the inputs, with the photos) → what the figure is made of."""


def connect(page: Widgets, panel: FigurePanel, inputs: list[Any], panels: Panels) -> None:
    """Let the button make a figure of what ``panels`` returns for ``inputs``."""
    count = len(panel.wanted)

    @guard
    def make(lang: str, request: gr.Request, *values: Any) -> list[Any]:
        wanted = Wanted.of(values[:count])
        found = panels(request, values[count:], wanted.photo)
        heats = heats_of(found)
        if not heats:
            raise ValueError(handlers.nothing_to_save())
        layout = Layout(
            width=wanted.width,
            columns=wanted.columns,
            font=wanted.font,
            dpi=wanted.dpi,
            letters=wanted.letters,
        )
        contents = plate_bytes(found, layout, wanted.kind)
        file = handlers.write(page.desk(request), heats, f"figure{wanted.kind}", contents)
        text = caption_text(found, layout)
        picture = _preview(found, layout)
        return [
            gr.update(visible=True),
            gr.update(value=picture, alt_text=text),
            gr.update(value=file),
            text,
            bibtex(heats),
        ]

    panel.make.click(make, [page.lang, *panel.wanted, *inputs], panel.outputs, **QUIET)
    panel.venue.input(figure_panel.width_of, panel.venue, panel.width, queue=False, **QUIET)


def title(heat: Any, *more: str) -> str:
    """A panel's title in English: the method, the class it speaks of, and what tells it apart."""
    parts = [methods()[heat.method].title if heat.method in methods() else heat.title]
    if heat.target is not None:
        against = "" if heat.against is None else f" − {short(heat.against.label)}"
        parts.append(short(heat.target.label) + against)
    return ", ".join([*parts, *more])


def _preview(found: list[Panel], layout: Layout) -> Image.Image:
    dpi = max(72, min(200, int(PREVIEW / layout.width * 25.4)))
    small = Layout(layout.width, layout.columns, layout.font, dpi, layout.letters)
    return Image.open(io.BytesIO(plate_bytes(found, small, ".png")))
