"""What the Anatomy tab's steps are put together from: what is chosen, strips, tiles, formulas."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

import numpy as np
from PIL import Image

from app.attention_tab import token_name
from app.texts import say, tell
from explainers.models.labels import short
from explainers.render.colours import SIGNED, UNSIGNED, colour_table
from explainers.render.strips import on_picture, strip
from explainers.sentence import Sentence
from explainers.trace import Trace
from explainers.views.anatomy import Anatomy

PATCH = "patch"
"""Chosen in the menu of tokens: the chosen patch asks, rather than a prefix token."""

WRITTEN = 6
"""Numbers of a strip that are written out."""


@dataclass(frozen=True)
class View:
    """What a step is drawn of: a patch (row, column), a block, a head, and the token that asks
    (``PATCH``, or a prefix token's index as text). All lie inside the model's ranges."""

    lang: str
    anatomy: Anatomy
    row: int
    column: int
    block: int
    head: int
    asks: str = PATCH

    @property
    def trace(self) -> Trace:
        return self.anatomy.trace

    @property
    def patch(self) -> int:
        """The chosen patch, counted in reading order."""
        return self.row * self.trace.grid[1] + self.column

    @property
    def token(self) -> int:
        """The chosen patch among all tokens."""
        return self.trace.prefix + self.patch

    @property
    def query(self) -> int:
        """The token that asks."""
        return self.token if self.asks == PATCH else int(self.asks)

    @property
    def framed(self) -> tuple[int, int] | None:
        """The patch with a frame: the one that asks, if it is one."""
        return (self.row, self.column) if self.asks == PATCH else None

    def say(self, key: str, **values: object) -> str:
        return say(self.lang, key, **values)

    def name(self, token: int) -> str:
        """A token in words: CLS, register 2, patch 7, 8."""
        if token < self.trace.prefix:
            return token_name(self.lang, self.trace.model.adapter.prefix_names[token])
        row, column = divmod(token - self.trace.prefix, self.trace.grid[1])
        return self.say("attention_patch", row=row + 1, column=column + 1)

    def label(self, index: int) -> str:
        """A class as people call it."""
        return short(self.trace.model.label(index))

    @cached_property
    def seen(self) -> np.ndarray:
        """What the patches cover of the model's input, as a picture (h, w, 3)."""
        (rows, columns), (ph, pw) = self.trace.grid, self.trace.model.adapter.patch
        picture = self.trace.model.preprocessing.undo(self.anatomy.pixels)
        return picture[: rows * ph, : columns * pw]

    def picture(
        self, cells: np.ndarray | None = None, lines: bool = True, frame: bool = True
    ) -> Image.Image:
        """The input with the patches' lines, and a colour for each patch (patches, 3)."""
        if cells is not None:
            cells = cells.reshape(*self.trace.grid, 3)
        return on_picture(
            self.seen,
            self.trace.grid,
            cells=cells,
            lines=lines,
            chosen=self.framed if frame else None,
        )


@dataclass(frozen=True)
class Shown:
    """A step as the tab shows it. picture and its alt text; under: HTML below the picture;
    detail: HTML beside it; worked: the numbers worked out, Markdown with LaTeX; notes: what
    this model does otherwise."""

    picture: Image.Image
    alt: str
    under: str = ""
    detail: str = ""
    worked: str = ""
    notes: Sequence[Sentence | str] = ()


def vector(
    view: View,
    name: str,
    key: str,
    *index: int,
    limit: float | None = None,
    signed: bool = True,
    middle: float = 0.0,
) -> str:
    """A tensor's row as a strip of colours with its key, its first numbers written out.

    middle: the number that is white in a signed strip."""
    values = view.anatomy.row(key, *index).detach().cpu().double().numpy()
    place = f"[{', '.join(map(str, index))}]" if index else ""
    words = view.say(
        "anatomy_strip", count=len(values), low=number(values.min()), high=number(values.max())
    )
    first = ", ".join(number(v) for v in values[:WRITTEN])
    colours = uri(strip(values - middle, limit, signed))
    return (
        f"<div class='vs-vector' data-key='{key}' data-index='{','.join(map(str, index))}'>"
        f"<p><b>{escape(name)}</b> <code>{key}{place}</code> <span>{escape(words)}</span></p>"
        f"<img src='{colours}' alt='{escape(words, quote=True)}'>"
        f"<p class='vs-numbers'>{first}{', …' if len(values) > WRITTEN else ''}</p></div>"
    )


def shape_line(view: View, *keys: tuple[str, Sequence[int]]) -> str:
    """The keys and shapes of a step's tensors."""
    parts = [
        f"<code data-shape='{key}'>{key}</code> {' × '.join(map(str, shape))}"
        for key, shape in keys
    ]
    return f"<p class='vs-shapes'>{escape(view.say('anatomy_tensors'))} {' · '.join(parts)}</p>"


def tile(picture: np.ndarray, caption: str, alt: str = "") -> str:
    """A small picture (h, w, 3), its pixels kept square and sharp, with a line under it."""
    return (
        f"<figure class='vs-tile'><img src='{uri(picture)}' "
        f"alt='{escape(alt or caption, quote=True)}'>"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def tiles(found: Iterable[str]) -> str:
    return f"<div class='vs-tiles'>{''.join(found)}</div>"


def bars(
    rows: Iterable[tuple[str, float, str]], top: float | None = None, signed: bool = False
) -> str:
    """Names with a bar and a number: (name, length, number as text); ``top`` is a full bar.

    Signed bars are red above zero and blue below, as strips are."""
    rows = list(rows)
    full = top or max((abs(length) for _, length, _ in rows), default=1) or 1
    lines = [
        f"<tr><th scope='row'>{escape(name)}</th><td><i class='{'vs-minus' if length < 0 else ''}'"
        f" style='width:{100 * min(1, abs(length) / full):.1f}%'></i></td><td>{text}</td></tr>"
        for name, length, text in rows
    ]
    return f"<table class='vs-bars{' vs-signed' if signed else ''}'>{''.join(lines)}</table>"


def scale_bar(low: str, high: str, signed: bool = False, middle: str = "0") -> str:
    """Which colour stands for which number."""
    table = colour_table(SIGNED[0] if signed else UNSIGNED[0])
    stops = ", ".join("rgb({}, {}, {})".format(*colour) for colour in table[::16])
    centre = f"<span>{middle}</span>" if signed else ""
    return (
        f"<div class='vs-scale'><div style='background: linear-gradient(90deg, {stops})'></div>"
        f"<p><span>{low}</span>{centre}<span>{high}</span></p></div>"
    )


def paragraph(text: str, css: str = "") -> str:
    return f"<p class='{css}'>{escape(text)}</p>" if css else f"<p>{escape(text)}</p>"


def said(view: View, sentence: Sentence | str) -> str:
    """A sentence of the library, or a text of the page, in the visitor's language."""
    return tell(view.lang, sentence)


def number(value: float) -> str:
    """Three decimals, with a real minus."""
    return f"{value:.3f}".replace("-", "\N{MINUS SIGN}")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def num(value: float) -> str:
    """Three decimals for a formula."""
    return f"{value:.3f}"


def short_num(value: float) -> str:
    """Four digits for a formula, very large and small numbers as powers of ten."""
    digits, _, power = f"{value:.4g}".partition("e")
    if not power:
        return digits
    return rf"{digits}\cdot 10^{{{int(power)}}}" if digits != "1" else rf"10^{{{int(power)}}}"


def plus(value: float) -> str:
    """A summand with its sign, for a formula."""
    return f"{'-' if value < 0 else '+'} {abs(value):.3f}"


def column(values: Iterable[float]) -> str:
    """Numbers below each other, in brackets, for a formula."""
    return matrix([[value] for value in values])


def matrix(rows: Iterable[Iterable[float]]) -> str:
    """Numbers in brackets, for a formula."""
    inside = r"\\ ".join(" & ".join(num(value) for value in row) for row in rows)
    return rf"\begin{{bmatrix}}{inside}\end{{bmatrix}}"


def formulas(*lines: str) -> str:
    """Lines of LaTeX as Markdown."""
    return "\n\n".join(f"$${line}$$" for line in lines)


def uri(picture: np.ndarray) -> str:
    """A picture as a data URI that a page can show."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
