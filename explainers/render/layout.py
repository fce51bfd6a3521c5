"""How a figure for a paper is laid out: its width, columns, letters and kinds of file."""

from __future__ import annotations

from dataclasses import dataclass

from explainers.render.figure_files import DPI
from explainers.sentence import Sentence

GAP, BAR, EDGE = 2.0, 1.8, 0.5
"""Between panels, the height of a colour bar, and above and below all, in mm."""

SUFFIXES = (".pdf", ".svg", ".png", ".tiff")


@dataclass(frozen=True)
class Layout:
    """width: of the figure, in mm. columns: panels side by side, 0 for as many as are well seen.
    font: size of the text, in points. dpi: of the pictures in it, at least. letters: a, b, c, …
    bars: a colour bar below each map. ValueError where one of them is out of range."""

    width: float = 89
    columns: int = 0
    font: float = 7
    dpi: int = DPI
    letters: bool = True
    bars: bool = True

    def __post_init__(self) -> None:
        _demand("width", self.width, 20, 500)
        _demand("columns", self.columns, 0, 20)
        _demand("font", self.font, 4, 24)
        _demand("dpi", self.dpi, 72, 1200)


def check_suffix(suffix: str) -> None:
    """ValueError for a kind of file that a figure is not saved as."""
    if suffix not in SUFFIXES:
        raise ValueError(
            Sentence(
                "plate_suffix",
                "A figure is saved as {known}; {given} is none of these.",
                known=", ".join(SUFFIXES),
                given=suffix,
            )
        )


def letter(index: int) -> str:
    """a, b, …, z, aa, ab, …"""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _demand(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(
            Sentence(
                "plate_layout",
                "The figure's {name} must be from {low} to {high}; {given} was given.",
                name=name,
                low=low,
                high=high,
                given=value,
            )
        )
