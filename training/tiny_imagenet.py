"""Tiny-ImageNet as handed out: val/images with a list of their classes, words.txt, wnids.txt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeVar

from training.errors import TrainingError

LIST, WORDS, ORDER = "val_annotations.txt", "words.txt", "wnids.txt"
TEXTS = (LIST, WORDS, ORDER)
"""Files beside the images: WordNet id of each validation image; names of ids; the classes."""

Place = TypeVar("Place", Path, bytes, "Path | bytes")
Folders = dict[str, dict[str, Place]]
"""class folder → file → where its bytes are."""


def by_class(folders: Folders[Place], listing: str) -> Folders[Place]:
    """The validation images by WordNet id, in the order of the list, instead of in one folder.

    Raises TrainingError where the list and the images do not belong together.
    """
    here = {file.rsplit("/", 1)[-1]: (file, place) for file, place in folders["images"].items()}
    rows = [line.split("\t") for line in listing.splitlines() if line.strip()]
    named = {row[0]: row[1] for row in rows if len(row) > 1}
    odd = sorted(named.keys() ^ here.keys())
    if odd:
        raise TrainingError(
            f"{LIST} names {len(named)} images and {len(here)} are there ({odd[0]} is in one of "
            "both only); the data seem half-written, so unpack them again."
        )
    found: Folders[Place] = {}
    for image, wnid in named.items():
        file, place = here[image]
        found.setdefault(wnid, {})[file] = place
    return found


def in_order(classes: Collection[str], order: str | None) -> tuple[str, ...]:
    """The classes in the order of wnids.txt where it names just these, else sorted."""
    listed = tuple(line.strip() for line in (order or "").splitlines() if line.strip())
    return listed if set(listed) == set(classes) else tuple(sorted(classes))


def names_of(classes: Collection[str], words: str | None) -> Mapping[str, str]:
    """What words.txt calls the classes, of those it knows."""
    rows = (line.split("\t", 1) for line in (words or "").splitlines())
    return {row[0]: row[1].strip() for row in rows if len(row) == 2 and row[0] in classes}
