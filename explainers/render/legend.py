"""The colour bar: which colour stands for which number."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from explainers.heatmap import HeatMap
from explainers.render.colours import check_colours, colour_table
from explainers.render.fonts import text_font
from explainers.render.scale import Scale, channel, make_scale

INK = (40, 40, 40)
PAPER = (255, 255, 255)


def number(value: float) -> str:
    """A value as a legend prints it: three figures, a true minus sign, no minus zero."""
    text = f"{value:.3g}"
    return "0" if float(text) == 0 else text.replace("-", "−")


def ticks(scale: Scale) -> list[float]:
    """The values a bar names: both ends and the middle (zero, in a signed scale)."""
    if scale.high <= scale.low:
        return [scale.low]
    return [scale.low, (scale.low + scale.high) / 2, scale.high]


def colour_bar(
    heat: HeatMap,
    colours: str | None = None,
    limit: float | None = None,
    scale: str = "zero",
    width: int = 320,
) -> Image.Image:
    """A horizontal legend for the overlay drawn with the same options, ``width`` pixels wide.

    A flat or all-zero map is labelled with what it has: one number may stand at the bar. The
    three channels of an rgb map have scales of their own and get a bar each, without numbers
    in common; their ends are printed.
    """
    size = max(11, round(width / 25))
    font = text_font(size)
    margin, thick = size, round(size * 1.2)
    rows = _rows(heat, colours, limit, scale)
    step = thick + round(size * 1.7)
    picture = Image.new("RGB", (width, step * len(rows) + margin // 2), PAPER)
    pen = ImageDraw.Draw(picture)
    for index, (table, own) in enumerate(rows):
        top = index * step + margin // 2
        length = width - 2 * margin
        if own.high <= own.low:
            levels = own.levels(np.full(length, own.low))
        else:
            levels = own.levels(np.linspace(own.low, own.high, length))
        strip = np.repeat(table[levels][None], thick, axis=0)  # (thick, length, 3)
        picture.paste(Image.fromarray(strip), (margin, top))
        pen.rectangle((margin - 1, top - 1, margin + length, top + thick), outline=INK)
        for place, value in zip((0.0, 0.5, 1.0), ticks(own), strict=False):
            x = margin + place * (length - 1)
            pen.line((x, top + thick, x, top + thick + size // 4), fill=INK)
            anchor = {0.0: "la", 0.5: "ma", 1.0: "ra"}[place]
            edge = {0.0: x - margin / 2, 0.5: x, 1.0: x + margin / 2}[place]
            pen.text((edge, top + thick + size // 4), number(value), INK, font, anchor)
    return picture


def _rows(
    heat: HeatMap, colours: str | None, limit: float | None, scale: str
) -> list[tuple[np.ndarray, Scale]]:
    """Table and scale of each bar: one, or red, green and blue for an rgb map."""
    if heat.kind != "rgb":
        table = colour_table(check_colours(colours, heat.signed))
        return [(table, make_scale(heat, limit, scale))]
    ramp = np.linspace(0, 255, 255).astype(np.uint8)
    rows = []
    for index in range(3):
        table = np.zeros((255, 3), dtype=np.uint8)
        table[:, index] = ramp
        rows.append((table, make_scale(channel(heat, index), limit, scale)))
    return rows
