"""The provenance in a saved file of maps, whatever kind of file it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from PIL import Image

from explainers.render.npz import read_npz

_IMAGE_DESCRIPTION = 270
_PDF_KEYWORDS = re.compile(rb"/Keywords \(((?:[^\\()]|\\.)*)\)", re.DOTALL)
_PDF_ESCAPES = {b"n": b"\n", b"r": b"\r"}
_SVG_DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"


def read_metadata(path: Path) -> dict[str, Any]:
    """What made the maps in a .npz, .png, .pdf, .svg or .tiff file.

    One map's provenance; or of several maps: name → provenance, or {"maps": […]} of a figure.
    ValueError where the file holds none; OSError where it cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _npz(path)
    reader = _READERS.get(suffix)
    text = None if reader is None else reader(path)
    if text is None:
        raise ValueError(f"no provenance in {path.name}")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"no provenance in {path.name}")
    inner = found.get("provenance")
    return inner if isinstance(inner, dict) else found


def _npz(path: Path) -> dict[str, Any]:
    contents = read_npz(path)
    made: dict[str, Any] = contents["provenance"]
    if "values" in contents:
        return made
    return {name: made[name] for name in contents if name in made}  # in the file's own order


def _png(path: Path) -> str | None:
    with Image.open(path, formats=["PNG"]) as picture:
        return picture.info.get("provenance")


def _tiff(path: Path) -> str | None:
    with Image.open(path, formats=["TIFF"]) as picture:
        found = picture.getexif().get(_IMAGE_DESCRIPTION)
        return None if found is None else str(found)


def _svg(path: Path) -> str | None:
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
    found = next(root.iter(_SVG_DESCRIPTION), None)
    return None if found is None else found.text


def _pdf(path: Path) -> str | None:
    """Matplotlib writes the document's information plainly; nothing else in a PDF is read."""
    found = _PDF_KEYWORDS.search(path.read_bytes())
    if found is None:
        return None
    plain = re.sub(rb"\\(.)", lambda m: _PDF_ESCAPES.get(m[1], m[1]), found[1], flags=re.DOTALL)
    return plain.decode("latin-1")


_READERS: dict[str, Callable[[Path], str | None]] = {
    ".png": _png,
    ".tiff": _tiff,
    ".svg": _svg,
    ".pdf": _pdf,
}
