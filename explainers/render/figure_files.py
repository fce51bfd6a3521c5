"""Figures as files: real text in embedded fonts, what made them in the metadata, no dates."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from explainers.render.fonts import has_chinese

DPI = 300
"""Dots an inch of pixel files: what journals ask for at least."""

SETTINGS = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "ViTScope"}
"""Fonts embedded as text (not outlines), and the same identifiers on every save.

With Chinese letters, PDFs get fonts of type 3, text as well: most such fonts have outlines of
the CFF kind, which Matplotlib embeds as type 42 in a way that Acrobat cannot read."""

_settings_lock = threading.Lock()


def file_bytes(figure: Figure, suffix: str, title: str, everything: str, dpi: int = DPI) -> bytes:
    """The figure as the bytes of a ``.pdf``, ``.svg``, ``.png`` or ``.tiff`` file.

    everything: JSON for the metadata, which `explainers.render.metadata` reads again.
    """
    buffer = io.BytesIO()
    extra: dict[str, Any]
    if suffix == ".pdf":
        creator = {"Creator": "ViTScope", "Title": title, "Keywords": everything}
        extra = {"metadata": {**creator, "CreationDate": None, "ModDate": None}}
    elif suffix == ".svg":
        creator = {"Creator": "ViTScope", "Title": title, "Description": everything}
        extra = {"metadata": {**creator, "Date": None}}
    elif suffix == ".png":
        extra = {"metadata": {"Software": "ViTScope", "provenance": everything}}
    else:
        tags = {270: everything, 305: "ViTScope"}  # ImageDescription, Software
        extra = {"pil_kwargs": {"compression": "tiff_adobe_deflate", "tiffinfo": tags}}
    with _settings(has_chinese(figure)):
        figure.savefig(buffer, format=suffix.lstrip("."), dpi=dpi, **extra)
    return buffer.getvalue()


@contextmanager
def _settings(chinese: bool) -> Iterator[None]:
    """Our font settings while one figure is written; they are global, hence the lock."""
    chosen = SETTINGS | ({"pdf.fonttype": 3} if chinese else {})
    with _settings_lock:
        settings: Any = matplotlib.rcParams
        before = {name: settings[name] for name in SETTINGS}
        settings.update(chosen)
        try:
            yield
        finally:
            settings.update(before)
