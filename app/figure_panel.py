"""The figure builder: a figure for a paper made of the maps that are on the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import figure_result
from app.figure_result import FigureResult
from explainers.render.layout import SUFFIXES
from explainers.render.venues import VENUES

OWN = "own"
DPIS = (300, 450, 600)


@dataclass
class FigurePanel:
    """The widgets of one figure builder."""

    venue: gr.Dropdown
    width: gr.Number
    columns: gr.Number
    font: gr.Number
    dpi: gr.Dropdown
    kind: gr.Radio
    letters: gr.Checkbox
    photo: gr.Checkbox
    make: gr.Button
    result: FigureResult

    @property
    def wanted(self) -> list[Any]:
        """In the order of the fields of `Wanted`."""
        return [
            *(self.width, self.columns, self.font, self.dpi),
            *(self.kind, self.letters, self.photo),
        ]

    @property
    def outputs(self) -> list[Any]:
        return self.result.outputs


@dataclass(frozen=True)
class Wanted:
    """What the builder's controls say; photo: with the photo itself before its maps."""

    width: float
    columns: int
    font: float
    dpi: int
    kind: str
    letters: bool
    photo: bool

    @classmethod
    def of(cls, values: Sequence[Any]) -> Wanted:
        """From the controls' values; an empty field means the usual."""
        width, columns, font, dpi, kind, letters, photo = values
        kind = kind if kind in SUFFIXES else SUFFIXES[0]
        return cls(
            width=_number(width, 89),
            columns=int(_number(columns, 0)),
            font=_number(font, 7),
            dpi=int(_number(dpi, 300)),
            kind=kind,
            letters=bool(letters),
            photo=bool(photo),
        )


def build(t: gr.I18n, elem_id: str) -> FigurePanel:
    """A folded panel: the layout, a button, and then the figure with caption and BibTeX."""
    venues = [(t("figure_own"), OWN)]
    for venue in VENUES:
        if venue.double is None:
            venues.append((f"{venue.name} · {venue.single:g} mm", f"{venue.single:g}/{venue.name}"))
            continue
        for key, width in (("figure_single", venue.single), ("figure_double", venue.double)):
            venues.append((f"{venue.name}, {t(key)} · {width:g} mm", f"{width:g}/{venue.name}"))
    with gr.Accordion(t("figure_title"), open=False, elem_classes="vs-glance", elem_id=elem_id):
        gr.HTML(t("figure_intro"), elem_classes="vs-notes")
        with gr.Row(elem_classes="vs-form"):
            venue = gr.Dropdown(venues, value=venues[1][1], label=t("figure_venue"), min_width=200)
            width = gr.Number(VENUES[0].single, label=t("figure_width"), min_width=90)
            columns = gr.Number(
                0, precision=0, label=t("figure_columns"), info=t("figure_auto"), min_width=90
            )
            font = gr.Number(7, label=t("figure_font"), min_width=90)
            dpi = gr.Dropdown(list(DPIS), value=DPIS[0], label=t("figure_dpi"), min_width=90)
        with gr.Row(elem_classes="vs-form"):
            kind = gr.Radio(
                [(suffix[1:].upper(), suffix) for suffix in SUFFIXES],
                value=SUFFIXES[0],
                label=t("figure_format"),
                min_width=200,
            )
            with gr.Column(min_width=140):
                letters = gr.Checkbox(True, label=t("figure_letters"))
                photo = gr.Checkbox(True, label=t("figure_photo"))
        make = gr.Button(t("figure_make"), variant="primary", size="sm")
        result = figure_result.build(t, elem_id)
    return FigurePanel(
        venue=venue,
        width=width,
        columns=columns,
        font=font,
        dpi=dpi,
        kind=kind,
        letters=letters,
        photo=photo,
        make=make,
        result=result,
    )


def width_of(venue: object) -> Any:
    """The width that a venue asks for, for the field beside it; its own value stays."""
    text = str(venue).partition("/")[0]
    try:
        return float(text)
    except ValueError:
        return gr.skip()


def _number(value: Any, usual: float) -> float:
    """A field's number; `Layout` refuses what is out of range."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return usual
    return found if math.isfinite(found) else usual
