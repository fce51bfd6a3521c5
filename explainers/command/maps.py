"""The map files of a photo: where they are, writing them, and pictures of them again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image

from explainers.command.arguments import RECIPE
from explainers.command.results import FULL, unwritable, writing
from explainers.heatmap import HeatMap
from explainers.image import Geometry, Photo
from explainers.recipe import save_recipe
from explainers.render.npz import read_npz
from explainers.render.overlay import overlay

LONGEST = 1024
"""The longer side of a map's picture, in pixels, where the photo is larger."""

LONGEST_NAME = 180
"""Bytes of a photo's name that go into a map's; most file systems allow 255 in all."""


def map_file(photo: str, method: str, suffix: str) -> str:
    """The file of a map, from the results' folder: "cats/a.jpg" → "cats/a.jpg.rollout.png".

    The photo's own suffix stays, so that a.jpg and a.png have different maps.
    """
    folder, slash, name = photo.rpartition("/")
    encoded = os.fsencode(name)
    if len(encoded) > LONGEST_NAME:
        start = encoded[:LONGEST_NAME].decode("utf-8", "ignore")
        name = f"{start}~{hashlib.sha256(encoded).hexdigest()[:8]}"
    return f"{folder}{slash}{name}.{method}{suffix}"


def map_files(photo: str, methods: Iterable[str], suffixes: Sequence[str]) -> list[str]:
    return [map_file(photo, method, suffix) for method in methods for suffix in suffixes]


def write_maps(heat: HeatMap, photo: str, suffixes: Sequence[str], out: Path) -> list[str]:
    """Write a map as each kind of file; their names from ``out``.

    CommandError where one file's place is obstructed; OSError where no file can be written.
    """
    files = map_files(photo, [heat.method], suffixes)
    for file in files:
        path = out / file
        try:
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.suffix == RECIPE:
                    save_recipe(heat, path)
                    continue
                options = {"width": _width(heat.photo)} if path.suffix == ".png" else {}
                heat.save(path, **options)
        except OSError as error:
            if error.errno in FULL:
                raise
            raise unwritable(error, path) from error
    return files


def _width(photo: Photo) -> int:
    return max(1, round(photo.width * min(1, LONGEST / max(photo.width, photo.height))))


def read_map(path: Path, photo: Photo) -> Image.Image:
    """The picture of a map from its file, .png or .npz. OSError or ValueError if it is broken."""
    if path.suffix == ".png":
        with Image.open(path) as picture:
            return picture.convert("RGB")
    contents = read_npz(path)
    about, provenance = contents["about"], contents["provenance"]
    geometry = {name: tuple(pair) for name, pair in provenance["geometry"].items()}
    heat = HeatMap(
        values=contents["values"],
        kind=about["kind"],
        signed=about["signed"],
        method=about["method"],
        title=about["title"],
        meaning=about["meaning"],
        photo=photo,
        geometry=Geometry(**geometry),
        target=None,
        against=None,
        parameters=about["parameters"],
        prefix_share=about["prefix_share"],
        figures=about["figures"],
        notes=(),
        provenance=provenance,
    )
    return overlay(heat, width=_width(photo))
