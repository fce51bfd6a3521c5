"""Saving maps: numbers as NPZ, pictures as PNG, figures as PDF, SVG or TIFF."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL.PngImagePlugin import PngInfo

from explainers.heatmap import HeatMap
from explainers.render.figure import figure_bytes
from explainers.render.npz import about, npz_bytes, read_npz, to_json
from explainers.render.overlay import overlay
from explainers.render.sheet import with_legend
from explainers.sentence import Sentence

__all__ = ["SUFFIXES", "SaveError", "png_bytes", "read_npz", "save", "save_all", "write_file"]

SUFFIXES = (".npz", ".png", ".pdf", ".svg", ".tiff")


class SaveError(OSError):
    """A file could not be written; the message is one plain sentence."""


def save(heat: HeatMap, path: str | Path, **options: Any) -> Path:
    """Write one map; the suffix of ``path`` chooses how, and the path is returned.

    ``.npz``: the raw numbers with provenance (read back with `read_npz`), the same bytes each
    time; it takes no options. ``.png``: the overlay at the photo's size, ``.pdf``, ``.svg``,
    ``.tiff``: a figure with photo, overlay and colour bar; both take the options of
    `explainers.render.overlay.overlay`, a ``.png`` also ``legend`` (see `png_bytes`), and
    carry the provenance in their metadata.
    The file appears complete or not at all. ValueError for any other suffix, SaveError where
    the file cannot be written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        if options:
            raise ValueError(
                Sentence(
                    "npz_takes_no_options",
                    "An .npz file holds the raw numbers, so the drawing options {names} have "
                    "no effect; leave them out or save a picture.",
                    names=", ".join(sorted(options)),
                )
            )
        return write_file(path, npz_bytes(heat))
    if suffix == ".png":
        return write_file(path, png_bytes(heat, **options))
    if suffix in SUFFIXES:
        return write_file(path, figure_bytes(heat, suffix, **options))
    raise ValueError(
        Sentence(
            "suffix_unknown",
            "A map is saved as {known}; {name} ends in none of these.",
            known=", ".join(SUFFIXES),
            name=path.name,
        )
    )


def save_all(heats: Sequence[HeatMap], path: str | Path) -> Path:
    """Write several maps, each under its method's name, with provenance to one NPZ file."""
    return write_file(Path(path), npz_bytes(list(heats)))


def png_bytes(heat: HeatMap, legend: bool = False, **options: Any) -> bytes:
    """The overlay as a PNG file; its text fields ``provenance`` and ``about`` are JSON.

    legend: with the map's title above and its colour bar below, which makes it higher.
    """
    info = PngInfo()
    info.add_text("provenance", to_json(heat.provenance))
    info.add_text("about", to_json(about(heat)))
    buffer = io.BytesIO()
    picture = with_legend(heat, **options) if legend else overlay(heat, **options)
    picture.save(buffer, "PNG", pnginfo=info)
    return buffer.getvalue()


def write_file(path: Path, contents: bytes) -> Path:
    """Write beside the target and rename, so that an interrupted save leaves no half file.

    SaveError where the file cannot be written.
    """
    try:
        return _replace(path, contents)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        failure = SaveError(
            Sentence(
                "map_not_saved",
                "{path} cannot be written ({reason}); choose a file in a folder that exists and "
                "may be written to.",
                path=str(path),
                reason=getattr(error, "strerror", None) or str(error),
            )
        )
        failure.errno = getattr(error, "errno", None)
        raise failure from error


def _replace(path: Path, contents: bytes) -> Path:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".saving-", suffix=path.suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(contents)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return path
