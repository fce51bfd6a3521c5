"""The contact sheet: a photo and its maps side by side, with titles, as one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from explainers.heatmap import HeatMap
from explainers.image import Photo
from explainers.render.figure import caption
from explainers.render.fonts import text_font
from explainers.render.legend import INK, PAPER, colour_bar
from explainers.render.overlay import overlay
from explainers.sentence import Sentence

LETTER = 13
"""Height of a caption's letters in pixels."""

Item = tuple[Photo | HeatMap | Image.Image, str]


def contact_sheet(
    items: Sequence[Item],
    columns: int = 4,
    tile: int = 280,
    title: str = "",
    bars: bool = False,
    **options: Any,
) -> Image.Image:
    """Photos, maps or ready pictures in rows of ``columns``, each under its caption.

    tile: the side in pixels of the square each picture is fitted into. bars: draw each map's
    colour bar below it. options: how maps are drawn, as in `overlay` (not ``width``).
    ValueError without items or columns.
    """
    if not items or columns < 1:
        raise ValueError(
            Sentence(
                "sheet_empty",
                "A contact sheet needs at least one picture and one column; {count} pictures "
                "and {columns} columns were given.",
                count=len(items),
                columns=columns,
            )
        )
    columns = min(columns, len(items))
    pictures = [_picture(item, tile, options) for item, _ in items]
    legends = [_legend(item, tile, options) if bars else None for item, _ in items]
    gap, line = 14, round(LETTER * 1.4)
    fonts = [text_font(LETTER, text) for _, text in items]
    captions = [wrapped(text, font, tile) for (_, text), font in zip(items, fonts, strict=True)]
    height = gap + (2 * line if title else 0)
    tops = []  # of each row's captions
    starts = range(0, len(items), columns)
    for start in starts:
        row = slice(start, start + columns)
        tops.append(height)
        height += line * max(len(lines) for lines in captions[row]) + LETTER // 2
        height += max(picture.height for picture in pictures[row])
        height += max((legend.height for legend in legends[row] if legend), default=0) + gap
    sheet = Image.new("RGB", (gap + columns * (tile + gap), height), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((gap, gap), title, INK, text_font(round(LETTER * 1.3), title))
    for top, start in zip(tops, starts, strict=True):
        row = slice(start, start + columns)
        room = line * max(len(lines) for lines in captions[row])
        for column, picture in enumerate(pictures[row]):
            lines, legend = captions[row][column], legends[row][column]
            x = gap + column * (tile + gap)
            for number, text in enumerate(lines):
                y = top + room - line * (len(lines) - number)
                pen.text((x, y), text, INK, fonts[start + column])
            y = top + room + LETTER // 2
            sheet.paste(picture, (x + (tile - picture.width) // 2, y))
            if legend:
                sheet.paste(legend, (x, y + picture.height))
    return sheet


def with_legend(heat: HeatMap, **options: Any) -> Image.Image:
    """The overlay under its title and above its colour bar, as wide as the overlay alone.

    options: as in `overlay`; the bar is of the same scale and colours.
    """
    picture = overlay(heat, **options)
    letter = max(11, round(picture.width / 40))
    text, line = caption(heat), round(letter * 1.4)
    font = text_font(letter, text)
    lines = wrapped(text, font, picture.width - letter)
    bar = _legend(heat, picture.width, options)
    top = line * len(lines) + letter // 2
    foot = bar.height if bar else 0
    sheet = Image.new("RGB", (picture.width, top + picture.height + foot), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, part in enumerate(lines):
        pen.text((letter // 2, letter // 4 + number * line), part, INK, font)
    sheet.paste(picture, (0, top))
    if bar:
        sheet.paste(bar, (0, top + picture.height))
    return sheet


def _picture(item: Photo | HeatMap | Image.Image, tile: int, options: dict[str, Any]) -> Any:
    """The item as an image that fits into a square of ``tile`` pixels."""
    if isinstance(item, HeatMap):
        return overlay(item, width=_fitted(item.photo.width, item.photo.height, tile), **options)
    image = item.to_pil() if isinstance(item, Photo) else item.convert("RGB")
    width = _fitted(image.width, image.height, tile)
    height = max(1, round(image.height * width / image.width))
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _fitted(width: int, height: int, tile: int) -> int:
    return max(1, round(width * tile / max(width, height)))


def _legend(
    item: Photo | HeatMap | Image.Image, tile: int, options: dict[str, Any]
) -> Image.Image | None:
    if not isinstance(item, HeatMap):
        return None
    chosen = {k: v for k, v in options.items() if k in ("colours", "limit", "scale")}
    return colour_bar(item, width=tile, **chosen)


def wrapped(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    """The text in lines of at most ``width`` pixels, broken between words where possible."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            if line and font.getlength(f"{line} {word}") > width:
                lines.append(line)
                line = ""
            line = f"{line} {word}" if line else word
            while font.getlength(line) > width and len(line) > 1:
                fits = next(n for n in range(len(line) - 1, 0, -1) if _fits(line[:n], font, width))
                lines.append(line[:fits])
                line = line[fits:]
        lines.append(line)
    return lines


def _fits(text: str, font: ImageFont.FreeTypeFont, width: int) -> bool:
    return len(text) == 1 or font.getlength(text) <= width
