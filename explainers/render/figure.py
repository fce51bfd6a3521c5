"""A map as a figure for a paper: photo, overlay and colour bar, with text that stays text."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from explainers.heatmap import HeatMap
from explainers.render.colours import check_colours, colour_table
from explainers.render.figure_files import file_bytes
from explainers.render.fonts import families
from explainers.render.legend import number, ticks
from explainers.render.npz import about, to_json
from explainers.render.overlay import overlay, widest
from explainers.render.scale import make_scale

NARROWEST, WIDEST = 900, 1600
"""Width of the pictures in a figure, in pixels: 300 to 500 dpi at three inches."""


def figure_bytes(heat: HeatMap, suffix: str, **options: Any) -> bytes:
    """The figure of ``heat`` as the bytes of a ``.pdf``, ``.svg`` or ``.tiff`` file.

    Provenance and meaning are written to its metadata as JSON; dates are not.
    options: as in `explainers.render.overlay.overlay`.
    """
    figure = heat_figure(heat, **options)
    everything = to_json({"provenance": heat.provenance, "about": about(heat)})
    return file_bytes(figure, suffix, heat.title, everything)


def heat_figure(heat: HeatMap, **options: Any) -> Figure:
    """Photo and overlay side by side, the colour bar to the right, what it is above."""
    usual = min(max(heat.photo.width, NARROWEST), WIDEST, widest(heat.photo))
    width = options.pop("width", None) or usual
    tall = heat.photo.height / heat.photo.width
    figure = Figure(figsize=(7.0, min(9.0, 3.0 * tall + 0.8)), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    drawn = overlay(heat, width=width, **options)
    photo = heat.photo.to_pil().resize(drawn.size, Image.Resampling.LANCZOS)
    left.imshow(photo, interpolation="none")  # pixels as they are, in vector files too
    right.imshow(drawn, interpolation="none")
    for axes, title in ((left, heat.photo.name), (right, caption(heat))):
        axes.set_axis_off()
        # a $ in a name is no formula
        axes.set_title(title, fontsize=9, parse_math=False, fontfamily=families(title))
    if heat.kind != "rgb":
        _add_bar(figure, heat, options)
    return figure


def caption(heat: HeatMap) -> str:
    """What a picture of the map is called: the method, and the class where it has one."""
    if heat.target is None:
        return heat.title
    against = f" − {heat.against.label}" if heat.against else ""
    return f"{heat.title}: {heat.target.label}{against}"


def _add_bar(figure: Figure, heat: HeatMap, options: dict[str, Any]) -> None:
    scale = make_scale(heat, options.get("limit"), options.get("scale", "zero"))
    table = colour_table(check_colours(options.get("colours"), heat.signed))
    colours = matplotlib.colors.ListedColormap(table / 255)
    high = scale.high if scale.high > scale.low else scale.low + 1
    norm = matplotlib.colors.Normalize(scale.low, high)
    mapping = matplotlib.cm.ScalarMappable(norm, colours)
    bar = figure.colorbar(mapping, ax=figure.axes, shrink=0.8, aspect=25)
    marks = ticks(scale)
    bar.set_ticks(marks, labels=[number(mark) for mark in marks])
    bar.ax.tick_params(labelsize=8)
    if scale.note:
        figure.supxlabel(scale.note, fontsize=7)


def to_image(figure: Figure) -> Image.Image:
    """The figure as an RGB image at its own dpi."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())
