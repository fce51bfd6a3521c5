"""The ViT paper's figure 7 as one figure for a paper: exact width, real text in embedded fonts."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from explainers.render.charts import (
    display_filters,
    draw_positions,
    number_tiles,
    position_mosaic,
)
from explainers.render.figure7_text import about
from explainers.render.figure_files import file_bytes
from explainers.render.head_charts import draw_heads
from explainers.render.layout import BAR, EDGE, GAP, Layout, check_suffix, letter
from explainers.render.millimetres import LEADING, Page, letter_height, text_lines
from explainers.render.npz import to_json
from explainers.sentence import Sentence
from explainers.views.figure7 import Figure7
from explainers.views.filters import FilterGrid
from explainers.views.positions import PositionSimilarity

ROW = 150.0
"""Width in mm from which the four panels stand in one row."""

TITLES = (
    "Filters: principal components",
    "Similarity of positions",
    "Mean attention distance",
    "Entropy of attention",
)

_MOSAIC = 1200  # pixels of the position panel's side: 600 dpi at 50 mm


def figure7_bytes(found: Figure7, layout: Layout, suffix: str) -> bytes:
    """The figure as a ``.pdf``, ``.svg``, ``.png`` or ``.tiff`` file.

    Model, weights, photos and numbers are in its metadata as JSON; dates are not. ValueError as
    `check` says.
    """
    check(layout, suffix)
    title = f"Inside {found.model.name}"
    return file_bytes(draw(found, layout), suffix, title, to_json(about(found)), layout.dpi)


def check(layout: Layout, suffix: str) -> None:
    """ValueError for a kind of file that is not known, or a layout without room for panels."""
    check_suffix(suffix)
    _Panels(layout)


def draw(found: Figure7, layout: Layout) -> Figure:
    """Four panels in a row, or two by two where the figure is narrower than 150 mm.

    ValueError where so many columns leave no room.
    """
    panels = _Panels(layout)
    heads, small = found.heads, layout.font * 0.8
    views = (found.filters, found.positions, heads, heads)
    for index, (title, view) in enumerate(zip(TITLES, views, strict=True)):
        panels.title(index, title)
        if isinstance(view, Sentence):
            panels.reason(index, str(view))
    if isinstance(found.filters, FilterGrid):
        _filters(panels.axes(0, margin=False), found.filters)
    if isinstance(found.positions, PositionSimilarity):
        _positions(panels.axes(1), panels.bar(1), found.positions, small)
    if not isinstance(heads, Sentence):
        _heads(panels.axes(2), heads.distance, "distance (px)", None, small)
        _heads(panels.axes(3), heads.entropy, "entropy / ln N", 1.0, small)
    return panels.page.figure


class _Panels:
    """The places of the panels on the page, each below its title."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.columns = min(layout.columns or (4 if layout.width >= ROW else 2), len(TITLES))
        self.panel = (layout.width - GAP * (self.columns - 1)) / self.columns
        high = letter_height(layout.font)
        self.margin = 4.2 * high  # numbers and a label at the left of a chart
        self.under = 2.4 * high  # the same below it
        self.side = self.panel - self.margin - EDGE
        if self.side < 8:
            raise ValueError(
                Sentence(
                    "figure7_room",
                    "The panels of the figure do not fit into {width} mm in {columns} columns; "
                    "choose a greater width, smaller letters or fewer columns.",
                    width=f"{layout.width:g}",
                    columns=self.columns,
                )
            )
        self.above = LEADING * high + 1
        self.step = self.above + self.side + 2 * self.under + BAR + GAP  # of a row with a bar
        rows = math.ceil(len(TITLES) / self.columns)
        last = self.step if rows == 1 else self.above + self.side + self.under
        self.page = Page(layout.width, EDGE + (rows - 1) * self.step + last)

    def _corner(self, index: int) -> tuple[float, float]:
        row, column = divmod(index, self.columns)
        return column * (self.panel + GAP), EDGE + row * self.step

    def title(self, index: int, text: str) -> None:
        x, y = self._corner(index)
        size = self.layout.font
        if self.layout.letters:
            self.page.text(x, y, letter(index), size, fontweight="bold")
            x += 1.5 * letter_height(size)
        self.page.text(x, y, text, size)

    def reason(self, index: int, text: str) -> None:
        """Why the model has no such panel, in its place."""
        x, y = self._corner(index)
        size = self.layout.font * 0.9
        lines = "\n".join(text_lines(text, size, self.panel))
        self.page.text(x, y + self.above, lines, size, color="#555555")

    def axes(self, index: int, margin: bool = True) -> Axes:
        """A square below the title; with room for numbers at its left."""
        x, y = self._corner(index)
        left = x + (self.margin if margin else 0)
        return self.page.axes(left, y + self.above, self.side, self.side)

    def bar(self, index: int) -> Axes:
        """A strip for a colour bar below the square and its numbers."""
        x, y = self._corner(index)
        top = y + self.above + self.side + self.under
        return self.page.axes(x + self.margin, top, self.side, BAR)


def _filters(axes: Axes, grid: FilterGrid) -> None:
    """The components as tiles, as many rows as columns or nearly so, the strongest first."""
    count, ph, pw, _ = grid.filters.shape
    columns = math.ceil(math.sqrt(count * ph / pw))
    rows = math.ceil(count / columns)
    gap = max(1, min(ph, pw) // 8)
    sheet = np.full((rows * (ph + gap) - gap, columns * (pw + gap) - gap, 3), 255, np.uint8)
    for index, tile in enumerate(display_filters(grid.filters)):
        row, column = divmod(index, columns)
        y, x = row * (ph + gap), column * (pw + gap)
        sheet[y : y + ph, x : x + pw] = tile
    axes.imshow(sheet, interpolation="none")
    axes.set_anchor("NW")
    axes.set_axis_off()


def _positions(axes: Axes, bar: Axes, found: PositionSimilarity, size: float) -> None:
    mosaic, rows, columns, step = position_mosaic(found, _MOSAIC)
    picture = draw_positions(axes, mosaic)
    for axis, lines, pace in ((axes.yaxis, rows, step[0]), (axes.xaxis, columns, step[1])):
        number_tiles(axis, lines, pace, max(1, math.ceil(len(lines) / 7)))
    axes.tick_params(length=0, labelsize=size, pad=1)
    axes.set_xlabel("patch column", fontsize=size, labelpad=1)
    axes.set_ylabel("patch row", fontsize=size, labelpad=1)
    axes.set_anchor("N")
    for spine in axes.spines.values():
        spine.set_visible(False)
    scale = bar.figure.colorbar(picture, cax=bar, orientation="horizontal")
    scale.set_ticks([-1, 0, 1])
    bar.tick_params(labelsize=size, length=1, pad=1)
    scale.set_label("cosine similarity", fontsize=size, labelpad=1)


def _heads(axes: Axes, values: np.ndarray, label: str, limit: float | None, size: float) -> None:
    draw_heads(axes, values, label, limit, size, legend=limit is None)  # one is enough
    axes.tick_params(labelsize=size, length=2, pad=1)
    axes.xaxis.label.set_fontsize(size)
    axes.yaxis.label.set_fontsize(size)
    axes.xaxis.labelpad = axes.yaxis.labelpad = 1
    axes.set_xticks(range(0, len(values), max(1, math.ceil(len(values) / 6))))
