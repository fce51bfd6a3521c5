"""A page of a figure measured in millimetres from its upper left corner, with real text on it."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from explainers.render.fonts import families, text_font
from explainers.render.sheet import wrapped

MM = 25.4
"""Millimetres in an inch."""

LEADING = 1.25
"""Distance of lines of text, in heights of its letters."""

_POINTS = 72
_MEASURED = 100  # size of the font that text is measured with


class Page:
    """A figure exactly ``width`` by ``height`` mm."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / MM, height / MM))
        FigureCanvasAgg(self.figure)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Axes that fill a box."""
        bottom = 1 - (y + height) / self.height
        box = x / self.width, bottom, width / self.width, height / self.height
        return self.figure.add_axes(box)

    def text(
        self, x: float, y: float, text: str, size: float, whole: str = "", **style: Any
    ) -> None:
        """Text below ``y``, its letters ``size`` points high.

        whole: what the text is one line of, where it is a line; it is set in the font of that.
        """
        self.figure.text(
            x / self.width,
            1 - y / self.height,
            text,
            fontsize=size,
            va="top",
            fontfamily=families(whole or text),
            parse_math=False,  # a $ in a name is no formula
            **style,
        )

    def picture(self, pixels: Any, x: float, y: float, width: float, height: float) -> None:
        """A picture that fills a box; its pixels stay as they are, in vector files too."""
        axes = self.axes(x, y, width, height)
        axes.set_axis_off()
        axes.imshow(pixels, interpolation="none", aspect="auto")


def letter_height(size: float) -> float:
    """Height in mm of letters ``size`` points high."""
    return size * MM / _POINTS


def text_width(text: str, size: float) -> float:
    """Width in mm of a text ``size`` points high."""
    return text_font(_MEASURED, text).getlength(text) / _MEASURED * letter_height(size)


def text_lines(text: str, size: float, width: float) -> list[str]:
    """The text in lines of at most ``width`` mm."""
    room = max(1, int(width / letter_height(size) * _MEASURED))
    return wrapped(text, text_font(_MEASURED, text), room)
