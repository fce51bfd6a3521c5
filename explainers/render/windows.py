"""Separate looks on their photo: each window outlined, its own answer in its upper left corner."""

from __future__ import annotations

from PIL import Image, ImageDraw, ImageFont

from explainers.heatmap import HeatMap
from explainers.models.labels import short
from explainers.render.fonts import text_font

LINE, CASING, GROUND = (255, 255, 255), (0, 0, 0), (20, 20, 20)
SMALLEST, LARGEST = 9, 26
"""Height of the letters in pixels; smaller ones nobody reads."""


def mark_windows(picture: Image.Image, heat: HeatMap) -> Image.Image:
    """``picture`` (of the whole photo, of any size) with the map's windows; itself without any."""
    if not heat.windows:
        return picture
    pen, scale = ImageDraw.Draw(picture), picture.width / heat.photo.width
    thin = max(1, round(min(picture.size) / 500))
    for window in heat.windows:
        left, top, right, bottom = (round(edge * scale) for edge in window.box)
        box = left, top, min(right, picture.width) - 1, min(bottom, picture.height) - 1
        pen.rectangle(box, outline=CASING, width=3 * thin)
        pen.rectangle(_inner(box, thin), outline=LINE, width=thin)
    for window in heat.windows:  # above all lines
        if window.answer is None:
            continue
        left, top, right, _ = (round(edge * scale) for edge in window.box)
        percent = f"{100 * window.answer.probability:.0f} %"
        _label(pen, (left, top), short(window.answer.label), percent, right - left)
    return picture


def _inner(box: tuple[int, int, int, int], by: int) -> tuple[int, int, int, int]:
    left, top, right, bottom = box
    return left + by, top + by, max(right - by, left + by), max(bottom - by, top + by)


def _label(
    pen: ImageDraw.ImageDraw, corner: tuple[int, int], name: str, percent: str, width: int
) -> None:
    """The answer in the window's corner, cut to three fifths of its width; none where no room."""
    room = 0.6 * width
    size = min(LARGEST, round(width / 12))
    if size < SMALLEST:
        return
    font = text_font(size, name)
    text = _fitted(name, percent, font, room)
    pad = max(2, size // 4)
    left, top, right, bottom = font.getbbox(text)
    x, y = corner[0] + pad, corner[1] + pad
    ground = x, y, x + right - left + 2 * pad, y + bottom - top + 2 * pad
    pen.rectangle(ground, fill=GROUND)
    pen.text((x + pad - left, y + pad - top), text, LINE, font)


def _fitted(name: str, percent: str, font: ImageFont.FreeTypeFont, room: float) -> str:
    """The name and its probability, the name shortened until both fit."""
    text = f"{name} {percent}"
    while len(name) > 3 and font.getlength(text) > room:
        name = name[:-1].rstrip()
        text = f"{name}… {percent}"
    return text
