"""A figure of several maps for a paper: exact width, real text, letters, colour bars with units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from explainers.heatmap import HeatMap
from explainers.image import Photo
from explainers.registry import methods
from explainers.render.colours import check_colours, colour_table
from explainers.render.contrast import contrast_unit
from explainers.render.figure_files import file_bytes
from explainers.render.layout import BAR, EDGE, GAP, Layout, check_suffix, letter
from explainers.render.legend import number, ticks
from explainers.render.millimetres import LEADING, MM, Page, letter_height, text_lines, text_width
from explainers.render.npz import about, to_json
from explainers.render.overlay import overlay, widest
from explainers.render.scale import make_scale
from explainers.sentence import Sentence

LEAST = 26.0
"""The narrowest panel, in mm, unless a number of columns is asked for."""


NO_UNIT = "arbitrary units"
"""Below the bar of a map whose values compare within it only."""


@dataclass(frozen=True)
class Panel:
    """One picture of a figure: a map drawn with options of `overlay`, or a photo by itself."""

    what: HeatMap | Photo
    title: str
    options: Mapping[str, Any] = field(default_factory=dict)


def plate_bytes(panels: Sequence[Panel], layout: Layout, suffix: str) -> bytes:
    """The figure as a ``.pdf``, ``.svg``, ``.png`` or ``.tiff`` file.

    Its metadata hold the provenance of every map, so the file serves as a recipe too.
    """
    check_suffix(suffix)
    heats = heats_of(panels)
    everything = {
        "maps": [heat.provenance for heat in heats],
        "about": [about(heat) for heat in heats],
    }
    title = "; ".join(panel.title for panel in panels)
    return file_bytes(plate(panels, layout), suffix, title, to_json(everything), layout.dpi)


def heats_of(panels: Sequence[Panel]) -> list[HeatMap]:
    """The maps among the panels."""
    return [panel.what for panel in panels if isinstance(panel.what, HeatMap)]


def plate(panels: Sequence[Panel], layout: Layout) -> Figure:
    """The panels in rows, each under its title, exactly ``layout.width`` mm wide.

    ValueError without panels, or where they leave no room for a picture.
    """
    columns = _columns(len(panels), layout)
    side = (layout.width - GAP * (columns - 1)) / columns  # mm
    if not panels or side < 5:
        raise ValueError(
            Sentence(
                "plate_room",
                "{count} pictures in {columns} columns do not fit into {width} mm; choose fewer "
                "columns, and at least one picture.",
                count=len(panels),
                columns=columns,
                width=f"{layout.width:g}",
            )
        )
    line = LEADING * letter_height(layout.font)
    indent = 1.3 * letter_height(layout.font) if layout.letters else 0.0
    titles = [text_lines(panel.title, layout.font, side - indent) for panel in panels]
    legends = [_Legend(panel, layout, side) for panel in panels]
    starts = range(0, len(panels), columns)
    rows = [slice(start, start + columns) for start in starts]
    heights = [
        (
            line * max(len(lines) for lines in titles[row]) + 0.6,
            max(side * _tall(panel) for panel in panels[row]),
            max(legend.height for legend in legends[row]),
        )
        for row in rows
    ]
    height = sum(map(sum, heights)) + GAP * (len(rows) - 1) + 2 * EDGE
    page = Page(layout.width, height)
    top = EDGE
    for row, (above, tall, below) in zip(rows, heights, strict=True):
        for column, index in enumerate(range(*row.indices(len(panels)))):
            left = column * (side + GAP)
            first = top + above - 0.6 - line * len(titles[index])  # titles stand on their pictures
            if layout.letters:
                page.text(left, first, letter(index), layout.font, fontweight="bold")
            for place, text in enumerate(titles[index]):
                at = left + indent, first + place * line
                page.text(*at, text, layout.font, whole=panels[index].title)
            picture = _picture(panels[index], side, layout.dpi)
            page.picture(picture, left, top + above, side, side * _tall(panels[index]))
            legends[index].draw(page, left, top + above + side * _tall(panels[index]))
        top += above + tall + below + GAP
    return page.figure


class _Legend:
    """The colour bar of a panel: the bar, its numbers, and what they count."""

    def __init__(self, panel: Panel, layout: Layout, side: float) -> None:
        self.side = side
        self.size = layout.font * 0.9
        self.step = LEADING * letter_height(self.size)
        self.numbers: list[tuple[float, str]] = []
        self.unit: list[str] = []
        self.height = 0.0
        heat = panel.what
        if not layout.bars or isinstance(heat, Photo) or heat.kind == "rgb":
            return
        scale = make_scale(heat, panel.options.get("limit"), panel.options.get("scale", "zero"))
        self.colours = colour_table(check_colours(panel.options.get("colours"), heat.signed))
        marks = ticks(scale)
        places = [0.0, 0.5, 1.0][: len(marks)]
        self.numbers = [(at, number(mark)) for at, mark in zip(places, marks, strict=True)]
        if _crowded([text_width(text + "  ", self.size) for _, text in self.numbers], side):
            self.numbers = [self.numbers[0], self.numbers[-1]]
        self.unit = text_lines(unit_of(heat) or NO_UNIT, self.size, side)
        self.height = 0.8 + BAR + 0.3 + self.step * (1 + len(self.unit))

    def draw(self, page: Page, left: float, top: float) -> None:
        if not self.height:
            return
        strip = self.colours[None]  # (1, 255, 3)
        page.picture(strip, left, top + 0.8, self.side, BAR)
        under = top + 0.8 + BAR + 0.3
        for at, text in self.numbers:
            align = {0.0: "left", 0.5: "center", 1.0: "right"}[at]
            page.text(left + at * self.side, under, text, self.size, ha=align)
        for place, text in enumerate(self.unit, 1):
            page.text(left + self.side / 2, under + place * self.step, text, self.size, ha="center")


def _crowded(widths: Sequence[float], side: float) -> bool:
    """Whether the middle one of three numbers below a bar would run into one at its ends."""
    return len(widths) == 3 and widths[1] / 2 + max(widths[0], widths[2]) > side / 2


def unit_of(heat: HeatMap) -> str:
    """What the map's values are counted in; empty where they compare within the map only."""
    named = {"consensus": "mean rank, 0 to 1", "difference": "difference"}
    if heat.method in named:
        return named[heat.method]
    declared = methods().get(heat.method)
    template = "" if declared is None else declared.unit
    return contrast_unit(template.format(**heat.parameters), heat)


def _picture(panel: Panel, side: float, dpi: int) -> np.ndarray:
    """The panel's pixels (H, W, 3), enough of them for ``dpi`` at ``side`` mm."""
    photo = panel.what if isinstance(panel.what, Photo) else panel.what.photo
    width = min(max(1, math.ceil(side / MM * dpi)), widest(photo))
    if isinstance(panel.what, HeatMap):
        return np.asarray(overlay(panel.what, width=width, **panel.options))
    height = max(1, round(width * photo.height / photo.width))
    return np.asarray(photo.to_pil().resize((width, height), Image.Resampling.LANCZOS))


def _tall(panel: Panel) -> float:
    photo = panel.what if isinstance(panel.what, Photo) else panel.what.photo
    return photo.height / photo.width


def _columns(count: int, layout: Layout) -> int:
    if layout.columns:
        return min(layout.columns, max(count, 1))
    most = max(1, int((layout.width + GAP) // (LEAST + GAP)))
    rows = math.ceil(max(count, 1) / most)
    return math.ceil(max(count, 1) / rows)
