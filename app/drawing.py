"""From a map and the display settings to the picture on the page and its colour bar."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from PIL import Image

from app.scene import Display
from explainers.heatmap import HeatMap
from explainers.image import Geometry
from explainers.render.colours import check_colours, colour_table
from explainers.render.legend import number, ticks
from explainers.render.overlay import overlay
from explainers.render.scale import make_scale, shared_limit
from explainers.sentence import Sentence

LONG_SIDE = 800
"""Pixels of a picture's longer side on the page; downloads have the photo's own size."""


def draw(heat: HeatMap, display: Display, together: Collection[HeatMap]) -> Image.Image:
    """The map as the page shows it; ``together``: the maps that share a colour scale."""
    return overlay(heat, width=shown_width(heat.geometry), **options(heat, display, together))


def shown_width(geometry: Geometry) -> int:
    """How many pixels wide a map of this photo is on the page."""
    height, width = geometry.photo_size
    return max(1, round(width * LONG_SIDE / max(height, width)))


def options(heat: HeatMap, display: Display, together: Collection[HeatMap]) -> dict[str, Any]:
    """The display settings as `overlay` takes them."""
    return {
        "alpha": display.opacity,
        "style": display.style,
        "smooth": display.smooth,
        **scale_options(heat, display, together),
    }


def scale_options(heat: HeatMap, display: Display, together: Collection[HeatMap]) -> dict[str, Any]:
    """Colours and their range as `overlay` and the colour bar take them."""
    shared = display.extent == "shared"
    return {
        "colours": None if heat.kind == "rgb" else _colours(heat, display),
        "limit": shared_limit(together) if shared else None,
        "scale": display.extent if display.extent in ("minmax", "percentile") else "zero",
    }


def scale_note(heat: HeatMap, display: Display, together: Collection[HeatMap]) -> Sentence | None:
    """What a reader must know of the colour range, when it is not the plain one."""
    chosen = scale_options(heat, display, together)
    return make_scale(heat, chosen["limit"], chosen["scale"]).note


def colour_bar(heat: HeatMap, display: Display, together: Collection[HeatMap]) -> str:
    """The colour bar of a map as HTML: which colour stands for which number."""
    if heat.kind == "rgb":
        return ""
    chosen = scale_options(heat, display, together)
    scale = make_scale(heat, chosen["limit"], chosen["scale"])
    table = colour_table(check_colours(chosen["colours"], heat.signed))
    stops = ", ".join("rgb({}, {}, {})".format(*colour) for colour in table[::16])
    numbers = "".join(f"<span>{number(value)}</span>" for value in ticks(scale))
    return (
        f"<div class='vs-scale'><div style='background: linear-gradient(90deg, {stops})'></div>"
        f"<p>{numbers}</p></div>"
    )


def _colours(heat: HeatMap, display: Display) -> str:
    return display.signed if heat.signed else display.unsigned
