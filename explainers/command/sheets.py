"""Contact sheets: every photo of a run that has maps, with them, on one or several pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from explainers.command.index import SEPARATOR, Row
from explainers.command.maps import map_file, read_map
from explainers.command.results import writing
from explainers.image import Photo, PhotoError, load_photo
from explainers.models.labels import short
from explainers.registry import find_method
from explainers.render.sheet import contact_sheet

TILE = 200
"""Side in pixels of the square that a picture is fitted into."""

ROWS = 20
"""Rows of a page: about 5,000 pixels high, which every viewer opens."""

LETTERS = 22
"""Letters of a photo's name that are shown, its last ones: about as wide as a tile."""

TILES_ACROSS = 6
"""Pictures side by side where the number of photos across is not given."""


@dataclass(frozen=True)
class Entry:
    """A photo's file and its row."""

    path: Path
    row: Row


def write_sheets(
    entries: Sequence[Entry], methods: Sequence[str], out: Path, across: int | None, title: str
) -> list[Path]:
    """Write contact_sheet.png, contact_sheet_2.png, …; pages of an earlier run are removed.

    ``across``: photos side by side. Photos and maps are read again a page at a time, so the
    memory it takes does not grow with their number. OSError names the page that failed.
    """
    shown = [entry for entry in entries if entry.row["maps"]]
    used = [m for m in methods if any(_map(entry.row, m) for entry in shown)]
    tiles = 1 + len(used)
    across = min(across or max(1, TILES_ACROSS // tiles), max(1, len(shown)))
    size = across * ROWS
    pages = [shown[start : start + size] for start in range(0, len(shown), size)]
    written = []
    for number, page in enumerate(pages, 1):
        heading = title if len(pages) == 1 else f"{title} - page {number} of {len(pages)}"
        items = [item for entry in page for item in _items(entry, used, out)]
        sheet = contact_sheet(items, columns=across * tiles, tile=TILE, title=heading)
        path = _page(out, number)
        new = path.with_name(f".{path.name}.new")
        try:
            with writing(path):
                sheet.save(new, "PNG")
                new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        written.append(path)
    number = len(pages) + 1
    while (old := _page(out, number)).is_file():
        old.unlink()
        number += 1
    return written


def _page(out: Path, number: int) -> Path:
    return out / ("contact_sheet.png" if number == 1 else f"contact_sheet_{number}.png")


def _items(
    entry: Entry, methods: Sequence[str], out: Path
) -> list[tuple[Photo | Image.Image, str]]:
    """The photo and one picture a method, each with its caption; grey where there is none."""
    try:
        photo = load_photo(entry.path)
    except PhotoError:  # gone since it was explained
        photo = None
    items: list[tuple[Photo | Image.Image, str]] = [(photo or _blank(), _caption(entry.row))]
    for name in methods:
        file = _map(entry.row, name)
        method = find_method(name)
        about = short(entry.row["target"]) if method.class_specific else ""
        caption = f"{method.title}: {about}" if about else method.title
        picture = None
        if file and photo:
            picture = _read(out / file, photo)
        items.append((picture or _blank(), caption))
    return items


def _map(row: Row, method: str) -> str:
    """The file of a method's map, the picture where there are picture and numbers; or ""."""
    made = row["maps"].split(SEPARATOR)
    files = [map_file(row["file"], method, suffix) for suffix in (".png", ".npz")]
    return next((file for file in files if file in made), "")


def _read(path: Path, photo: Photo) -> Image.Image | None:
    try:
        return read_map(path, photo)
    except (OSError, ValueError):  # taken away, or changed, meanwhile
        return None


def _blank() -> Image.Image:
    return Image.new("RGB", (TILE, TILE), "#eeeeee")


def _caption(row: Row) -> str:
    """The photo's name, what the model said and how sure it was, and what is true."""
    file = row["file"]
    lines = [file if len(file) <= LETTERS else f"…{file[-LETTERS:]}"]
    if row["class_1"]:
        lines.append(f"{short(row['class_1'])}, {100 * float(row['probability_1']):.0f} %")
    if row["correct"] == "top-1":
        lines[-1] += ", right"
    elif row["correct"]:
        lines.append(f"wrong: it is {short(row['true_class'])}")
    return "\n".join(lines)
