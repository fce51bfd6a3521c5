"""Charts that are no heat maps: sheets of patch filters and of position similarities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from PIL import Image, ImageDraw

from explainers.render.chart_style import INK, WORDS, transparent
from explainers.render.fonts import text_font
from explainers.views.filters import FilterGrid
from explainers.views.positions import PositionSimilarity

DPI = 100
POSITION_COLOURS = "viridis"
"""As in the ViT paper's figure 7, from −1 to 1."""

MARK = 2.0
"""Stands in the mosaic for the frame of a tile's own cell: above every cosine."""


def filter_sheet(grid: FilterGrid, width: int = 840, columns: int | None = None) -> Image.Image:
    """The filters as tiles, about ``width`` pixels wide; a weight is at least a pixel.

    Each tile is scaled on its own and symmetrically: mid-grey is weight zero, the largest
    |weight| of the tile reaches black or white. Components carry their number and their share
    of the variance in percent.
    """
    count, ph, pw, _ = grid.filters.shape
    if columns is None:
        columns = 7 if grid.variance is not None else math.ceil(math.sqrt(count * 1.6 * ph / pw))
        columns = min(columns, max(1, width // (pw + 2)))
    columns = min(columns, count)
    zoom = max(1, width // columns // (pw + 1))
    tile_height, tile_width = ph * zoom, pw * zoom
    gap = max(2, tile_width // 16)
    text = max(10, min(18, tile_width // 6)) if grid.variance is not None else 0
    step_x, step_y = tile_width + gap, tile_height + gap + (text + 4 if text else 0)
    rows = math.ceil(count / columns)
    size = (gap + columns * step_x, gap + rows * step_y)
    sheet = Image.new("RGBA", size, (*INK, 0))  # no paper: the page may be dark
    pen, font = ImageDraw.Draw(sheet), text_font(text or 10)
    for index, pixels in enumerate(display_filters(grid.filters)):
        row, column = divmod(index, columns)
        x, y = gap + column * step_x, gap + row * step_y
        tile = Image.fromarray(pixels)
        sheet.paste(tile.resize((tile_width, tile_height), Image.Resampling.NEAREST), (x, y))
        if grid.variance is not None:
            share = f"{index + 1}: {100 * grid.variance[index]:.1f} %"
            pen.text((x + tile_width / 2, y + tile_height + 1), share, (*INK, 255), font, "ma")
    return sheet


def display_filters(filters: np.ndarray) -> np.ndarray:
    """Filters (count, ph, pw, 3) as uint8 pictures, each scaled alone; zero is mid-grey."""
    largest = np.abs(filters).max(axis=(1, 2, 3), keepdims=True)
    share = np.divide(filters, largest, out=np.zeros_like(filters), where=largest > 0)
    return np.rint(127.5 + 127.5 * share).astype(np.uint8)


def position_sheet(
    positions: PositionSimilarity, side: int = 980, words: Mapping[str, str] = WORDS
) -> Image.Image:
    """One tile for each patch: how like its position embedding is to every other patch's.

    Tiles lie where their patches lie, and a cell with a dark frame in each tile is the patch
    itself (similarity 1). The longer side is about ``side`` pixels; where the grid is too
    large for that, every second, third, … patch has a tile, and the axes say which.
    """
    mosaic, rows, columns, step = position_mosaic(positions, side)
    return _position_figure(mosaic, rows, columns, step, margins(side), words)


def position_mosaic(
    positions: PositionSimilarity, side: int
) -> tuple[np.ndarray, range, range, tuple[int, int]]:
    """The tiles side by side, at most about ``side`` pixels: (mosaic, rows, columns, step).

    mosaic (H, W): cosines, NaN between the tiles, `MARK` around each tile's own cell. rows,
    columns: the patches that have a tile; step: pixels from one tile to the next (down, across).
    """
    h, w = positions.grid
    rows, columns = _tiles(h, side), _tiles(w, side)
    zoom = max(1, side // max(len(rows) * (h + 1), len(columns) * (w + 1)))
    gap = max(1, zoom)
    step_y, step_x = h * zoom + gap, w * zoom + gap
    mosaic = np.full((len(rows) * step_y - gap, len(columns) * step_x - gap), np.nan)
    for r, i in enumerate(rows):
        for c, j in enumerate(columns):
            tile = positions.similarity[i, j].repeat(zoom, axis=0).repeat(zoom, axis=1)
            top, left = r * step_y, c * step_x
            mosaic[top : top + h * zoom, left : left + w * zoom] = tile
            y, x = top + i * zoom, left + j * zoom
            own = mosaic[y : y + zoom, x : x + zoom]
            own[[0, -1]] = own[:, [0, -1]] = MARK  # all of it where a cell is 1 or 2 pixels
    return mosaic, rows, columns, (step_y, step_x)


def _tiles(count: int, side: int) -> range:
    """Which of ``count`` patches along an axis get a tile of as many cells within ``side``."""
    stride = 1
    while stride < count and math.ceil(count / stride) * (count + 1) > side:
        stride += 1
    return range((stride - 1) // 2, count, stride)


def draw_positions(axes: Axes, mosaic: np.ndarray, **options: Any) -> AxesImage:
    """A `position_mosaic` into given axes, in the colours of figure 7."""
    colours = matplotlib.colormaps[POSITION_COLOURS].with_extremes(over="black")
    return axes.imshow(mosaic, cmap=colours, vmin=-1, vmax=1, interpolation="nearest", **options)


def number_tiles(axis: Axis, lines: range, pace: int, every: int) -> None:
    """Write the number of each ``every``-th tile's patch row or column, from 1, beside it."""
    shown = range(0, len(lines), every)
    axis.set_ticks([n * pace + pace / 2 - 1 for n in shown], [str(lines[n] + 1) for n in shown])


def margins(side: int) -> tuple[int, int, int, int, int]:
    """Around the mosaic of a `position_sheet`, in pixels: (left, top, right, bottom), and the
    height of its letters."""
    text = max(11, round(side / 36))
    return 4 * text, text, 6 * text, round(3.5 * text), text


def _position_figure(
    mosaic: np.ndarray,
    rows: range,
    columns: range,
    step: tuple[int, int],
    around: tuple[int, int, int, int, int],
    words: Mapping[str, str],
) -> Image.Image:
    """The mosaic, one screen pixel for each of its pixels, with axes and a colour bar."""
    height, width = mosaic.shape
    left, top, right, bottom, text = around
    points = 72 * text / DPI
    full = (width + left + right, height + top + bottom)
    figure = Figure(figsize=(full[0] / DPI, full[1] / DPI), dpi=DPI)
    box = (left / full[0], bottom / full[1], width / full[0], height / full[1])
    axes = figure.add_axes(box)
    picture = draw_positions(axes, mosaic, aspect="auto")
    for axis, lines, pace in ((axes.yaxis, rows, step[0]), (axes.xaxis, columns, step[1])):
        number_tiles(axis, lines, pace, max(1, math.ceil(2.2 * text / pace)))
    roomy = height >= 11 * text  # a lower sheet has no room for words beside it
    axes.set_ylabel(words["chart_row" if roomy else "chart_row_short"], fontsize=points)
    axes.set_xlabel(words["chart_column"], fontsize=points)
    axes.tick_params(length=0, labelsize=points)
    for spine in axes.spines.values():
        spine.set_visible(False)
    edge = (left + width + text) / full[0]
    bar = figure.colorbar(picture, cax=figure.add_axes((edge, box[1], text / 2 / full[0], box[3])))
    bar.set_label(words["chart_cosine" if roomy else "chart_cosine_short"], fontsize=points)
    bar.ax.tick_params(labelsize=points)
    bar.set_ticks([-1, -0.5, 0, 0.5, 1] if roomy else [-1, 1])
    return transparent(figure)
