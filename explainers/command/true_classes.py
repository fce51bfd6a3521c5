"""Which class a folder's name stands for: a label, a WordNet id or an index."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable

from explainers.models.catalogue import EMBEDDED
from explainers.models.labels import IMAGENET_1K, imagenet_labels
from explainers.models.loading import FOLDER
from explainers.models.vision_model import VisionModel

WNID = re.compile(r"(n\d{8})(?!\d)")
"""A WordNet id, alone or before a name, as in "n02085620-Chihuahua"."""


class TrueClasses:
    """The classes of a model by the names that folders have."""

    def __init__(self, vit: VisionModel) -> None:
        self._classes = vit.classes
        self._wnids = {wnid: index for index, wnid in enumerate(_wnids(vit)) if wnid}
        whole = [(_plain(label), index) for index, label in enumerate(vit.labels or ())]
        parts = [
            (_plain(part), index)
            for index, label in enumerate(vit.labels or ())
            for part in label.split(",")
        ]
        self._names = {**_unique(parts), **_unique(whole)}

    def find(self, folders: Iterable[str]) -> int | None:
        """The class of the first folder name that stands for exactly one; None if none does."""
        return next((i for i in map(self._find, folders) if i is not None), None)

    def _find(self, folder: str) -> int | None:
        if (name := _plain(folder)) in self._names:
            return self._names[name]
        if wnid := WNID.match(folder):
            return self._wnids.get(wnid[1])
        if re.fullmatch(r"[0-9]{1,6}", folder) and int(folder) < self._classes:
            return int(folder)
        return None


def _plain(name: str) -> str:
    """A name as it is compared: without case, with spaces for "_" and "-"."""
    return " ".join(re.split(r"[\s_-]+", unicodedata.normalize("NFC", name).casefold())).strip()


def _unique(names: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Name → class, without the names that several classes have (two are called "crane")."""
    found: dict[str, set[int]] = {}
    for name, index in names:
        found.setdefault(name, set()).add(index)
    return {name: min(indices) for name, indices in found.items() if len(indices) == 1 and name}


def _wnids(vit: VisionModel) -> list[str | None]:
    """The WordNet id of each class; [] for a model whose classes are not ImageNet's."""
    if vit.name == EMBEDDED:
        card = json.loads(next(FOLDER.glob("*.json")).read_text(encoding="utf-8"))
        return list(card["wnids"])
    if vit.classes not in (IMAGENET_1K, IMAGENET_1K + 1):
        return []
    if vit.labels != imagenet_labels(vit.classes):
        return []
    from timm.data import ImageNetInfo

    wnids: list[str | None] = list(ImageNetInfo("imagenet-1k").label_names())
    return [None] * (vit.classes - IMAGENET_1K) + wnids
