"""The six example photos: thumbnails that are buttons, for mouse and keyboard."""

from __future__ import annotations

import base64
import io
import json
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
from PIL import Image, ImageOps

from app.texts import language
from explainers import Photo, load_photo

FOLDER = Path(__file__).with_name("examples")
THUMBNAIL = (144, 144)
"""Width and height of a thumbnail in pixels; shown at half to full size."""

_JS = """
element.addEventListener('click', event => {
  const button = event.target.closest('button[data-index]');
  if (button) trigger('pick', {index: Number(button.dataset.index)});
});
"""


@cache
def entries() -> list[dict[str, Any]]:
    """The examples as `examples.json` lists them."""
    found: list[dict[str, Any]] = json.loads((FOLDER / "examples.json").read_text(encoding="utf-8"))
    return found


def path(index: object) -> Path:
    """The file of an example; the first for anything that is no example's number."""
    known = entries()
    chosen = index if isinstance(index, int) and 0 <= index < len(known) else 0
    return FOLDER / known[chosen]["file"]


@cache
def names() -> dict[str, Path]:
    """The examples' short names, as links and recipes give them → their files."""
    return {Path(entry["file"]).stem: FOLDER / entry["file"] for entry in entries()}


@cache
def digest(name: str) -> str:
    """The hash of an example, as `Photo.sha256`."""
    return load_photo(names()[name]).sha256


def name_of(photo: Photo) -> str | None:
    """The name of the example that a photo is, pixel for pixel; None for any other photo."""
    name = Path(photo.name).stem
    return name if name in names() and digest(name) == photo.sha256 else None


def picker(t: gr.I18n) -> gr.HTML:
    """The row of thumbnails; it triggers ``pick`` with the ``index`` of the one chosen."""
    return gr.HTML(html(None), js_on_load=_JS, label=t("examples"), elem_id="vs-examples")


def html(lang: object) -> str:
    """The thumbnails with their titles in ``lang``."""
    buttons = []
    for index, entry in enumerate(entries()):
        title = escape(entry["title"][language(lang)], quote=True)
        buttons.append(
            f"<button type='button' data-index='{index}' title='{title}'>"
            f"<img alt='{title}' src='{_thumbnail(entry['file'])}'></button>"
        )
    return f"<div class='vs-examples'>{''.join(buttons)}</div>"


@cache
def _thumbnail(file: str) -> str:
    with Image.open(FOLDER / file) as image:
        small = ImageOps.fit(image.convert("RGB"), THUMBNAIL)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
