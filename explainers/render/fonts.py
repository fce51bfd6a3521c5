"""Which font a text is set in: Matplotlib's own, or one with Chinese, Japanese and Korean letters.

The whole of a text is set in one font, in pictures and in vector files alike, so that what was
measured is what is drawn.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import ImageFont

logger = logging.getLogger(__name__)

_CHINESE = ("Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "Microsoft YaHei")
_CHINESE_TOO = ("PingFang SC", "Hiragino Sans GB", "SimHei", "Droid Sans Fallback")
_COLLECTION = ("Noto Sans CJK JP",)  # all that Matplotlib before 3.11 knows of Noto's collection


@cache
def chinese_font() -> str | None:
    """A font of this machine that knows Chinese; None where there is none."""
    known = {entry.name for entry in font_manager.fontManager.ttflist}
    wanted = (*_CHINESE, *_CHINESE_TOO, *_COLLECTION)
    return next((name for name in wanted if name in known), None)


def text_font(size: int, text: str = "") -> ImageFont.FreeTypeFont:
    """The font that ``text`` is set in, ``size`` pixels high.

    Opened anew each time: an open font must not be used by two threads at once.
    """
    path = _path(chinese_font()) if needs_chinese(text) else _own()
    return ImageFont.truetype(str(path), size, index=getattr(path, "face_index", 0))


def families(text: str) -> list[str] | None:
    """The same choice for a text in a Matplotlib figure; None for the figure's usual font."""
    font = chinese_font()
    if font is None or not needs_chinese(text):
        return None
    return [font, *matplotlib.rcParams["font.family"]]


def has_chinese(figure: Figure) -> bool:
    """Whether a text of the figure needs the other font."""
    texts = (found.get_text() for found in figure.findobj(Text) if isinstance(found, Text))
    return any(map(needs_chinese, texts))


def needs_chinese(text: str) -> bool:
    """Whether this machine's Chinese font has more of the letters than Matplotlib's own has."""
    if usual(text):
        return False
    font = chinese_font()
    if font is None:
        _warn_once()
        return False
    return _lacking(_path(font), text) < _lacking(_own(), text)


def usual(text: str) -> bool:
    """Whether Matplotlib's own font has all letters of a text."""
    return text.isascii() or not _lacking(_own(), text)


def _own() -> str:
    """Matplotlib's own font, which knows more letters than Pillow's and is always there."""
    return str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"))


def _path(family: str | None) -> str:
    """The font's file; in newer Matplotlib it knows which font of a collection is meant."""
    return font_manager.findfont(font_manager.FontProperties(family=family))


def _lacking(path: str, text: str) -> int:
    """How many letters of the text the font has no shape for."""
    font = font_manager.get_font(path)
    return sum(letter.isprintable() and not font.get_char_index(ord(letter)) for letter in text)


@cache
def _warn_once() -> None:
    logger.warning(
        "Some letters of a title or label have no shape in the fonts of this machine and are drawn "
        "as boxes; for Chinese, Japanese and Korean, install Noto Sans CJK (fonts-noto-cjk)."
    )
