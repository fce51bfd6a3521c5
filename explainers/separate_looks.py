"""Windows: one photo looked at through k overlapping crops, each at the model's own size.

The photo is resized as for a look at the whole of it, and windows of the model's own input are
laid over it so that they cover it, at whole patches: cells of different windows coincide, and the
map is the mean over the windows that show a cell. It is *k separate looks*, not one: no window
knows what the others show, and each has an answer of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, cast

import numpy as np

from explainers.heatmap import HeatMap, Target, Window
from explainers.image import Geometry, Photo
from explainers.methods.explain import explain, find_target
from explainers.methods.scoring import Progress
from explainers.models.errors import ModelError
from explainers.models.sizes import uncut, whole_size
from explainers.models.vision_model import VisionModel
from explainers.registry import Method, Support, find_method
from explainers.scalars import real_number, shown
from explainers.sentence import Sentence
from explainers.trace import Trace
from explainers.window_notes import no_colours, windows_note, windows_title
from explainers.window_places import MOST, OVERLAP, starts, too_many, windowed_long_side

_PARTS = 1000  # of a window's work, as progress counts them
_OF_ONE_PATCH = frozenset({"patch_similarity"})
"""Methods that compare with a patch: each window would have its own one."""


class SeparateLooks:
    """A photo, a model, and the windows through which the model sees the photo.

    model: as it was loaded, cutting nothing off. geometry: of the photo at the size that the
    windows are cut from. places: the (row, column) of each window's first cell, in reading order.
    """

    def __init__(
        self,
        model: VisionModel,
        photo: Photo,
        long_side: int | None = None,
        overlap: float = OVERLAP,
    ) -> None:
        """long_side: of the photo that the windows are cut from, in pixels; a photo is never made
        smaller than one window. None: two windows along its short side. overlap: 0..0.9.
        ModelError for more than `MOST` windows.
        """
        share = real_number(overlap)
        if share is None or not 0 <= share <= 0.9:
            raise ValueError(
                Sentence(
                    "windows_overlap",
                    "Windows share between 0 and 0.9 of their side; got {overlap}.",
                    overlap=shown(overlap),
                )
            )
        self.model = uncut(model.native or model)
        self.photo = photo
        self.overlap = share
        self.long_side = windowed_long_side(self.model, photo, long_side, share)
        self.geometry = self._geometry()
        self.cells = self.model.adapter.grid(self.model.preprocessing.size)
        rows, columns = (
            starts(whole, cells, share)
            for whole, cells in zip(self.geometry.grid, self.cells, strict=True)
        )
        self.shape = len(rows), len(columns)
        self.places = tuple((row, column) for row in rows for column in columns)
        if len(self) > MOST:
            raise too_many(len(self))
        self._pixels: np.ndarray | None = None
        self._traces: dict[int, Trace] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.places)

    def box(self, index: int) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of a window in photo pixels."""
        (row, column), (rows, columns) = self.places[index], self.cells
        left, top, _, _ = self.geometry.cell_box(row, column)
        _, _, right, bottom = self.geometry.cell_box(row + rows - 1, column + columns - 1)
        return left, top, right, bottom

    def trace(self, index: int) -> Trace:
        """One window's trace: a photo of its own to the model. Made once, then kept."""
        with self._lock:
            if index not in self._traces:
                self._traces[index] = self.model.trace(self._window(index))
            return self._traces[index]

    def supports(self, name: str, parameters: dict[str, Any] | None = None) -> Support:
        """Whether a method works through windows; falsy with the reason when it does not."""
        method, given = find_method(name), parameters or {}
        tokens = [p.name for p in method.parameters if p.kind == "token"]
        if name in _OF_ONE_PATCH or any(given.get(token) is not None for token in tokens):
            return Support(
                False,
                Sentence(
                    "windows_token",
                    "{title} follows one chosen patch, and each window has patches of its own; "
                    "look at the whole photo for it.",
                    title=method.title,
                ),
            )
        return self.model.supports(name)

    def explain(
        self,
        name: str,
        target: int | str | None = None,
        against: int | str | None = None,
        progress: Progress | None = None,
        **parameters: Any,
    ) -> HeatMap:
        """One method's map over the whole photo: the mean of its maps of the windows.

        target: a class for all windows; None: each window's own first answer. The rest as
        `explainers.explain`. Raises ModelError where `supports` says no.
        """
        method = find_method(name)
        support = self.supports(name, parameters)
        if not support:
            raise ModelError(support.reason)
        if against is not None and target is None:
            raise ValueError(
                Sentence(
                    "windows_contrast",
                    "Each window has a first answer of its own, so a contrast needs the class it "
                    "is held against named; choose one.",
                )
            )
        heats: list[HeatMap] = []
        for index in range(len(self)):
            within = self._within(index, progress)
            heat = explain(name, self.trace(index), target, against, within, **parameters)
            heats.append(cast(HeatMap, heat))
            if heats[0].kind == "rgb":
                raise ModelError(no_colours(method))
        if progress is not None:
            progress(len(self) * _PARTS, len(self) * _PARTS)
        return self._joined(method, heats, target is not None)

    def _geometry(self) -> Geometry:
        size = whole_size(self.photo, self.model.adapter.patch, self.long_side)
        window = self.model.preprocessing.size
        size = max(size[0], window[0]), max(size[1], window[1])
        whole = replace(self.model.preprocessing, size=size)
        return whole.geometry(self.photo, self.model.adapter.patch)

    def _window(self, index: int) -> Photo:
        """What a window shows, of exactly the model's input size."""
        with self._lock:
            if self._pixels is None:
                whole = replace(self.model.preprocessing, size=self.geometry.input_size)
                self._pixels = whole.window(self.photo)
            (row, column), (high, wide) = self.places[index], self.model.adapter.patch
            height, width = self.model.preprocessing.size
            top, left = row * high, column * wide
            cut = self._pixels[top : top + height, left : left + width]
            return Photo(cut, f"{self.photo.name}, window {index + 1}")

    def _within(self, index: int, progress: Progress | None) -> Progress | None:
        """A window's own progress as that of all windows."""
        if progress is None:
            return None

        def told(done: int, total: int) -> None:
            progress(index * _PARTS + _PARTS * done // max(total, 1), len(self) * _PARTS)

        told(0, 1)
        return told

    def _joined(self, method: Method, heats: Sequence[HeatMap], named: bool) -> HeatMap:
        first = heats[0]
        pixels = first.kind == "pixels"
        cell = self.model.adapter.patch if pixels else (1, 1)
        shape = self.geometry.input_size if pixels else self.geometry.grid
        total, seen = np.zeros(shape), np.zeros(shape)
        for (row, column), heat in zip(self.places, heats, strict=True):
            top, left = row * cell[0], column * cell[1]
            height, width = heat.values.shape
            total[top : top + height, left : left + width] += heat.values
            seen[top : top + height, left : left + width] += 1
        values = (total / seen).astype(first.values.dtype)
        values.flags.writeable = False
        shares = [heat.prefix_share for heat in heats if heat.prefix_share is not None]
        answers = [self._answer(index) for index in range(len(self))]
        own = method.class_specific and self.model.classes > 0 and not named
        note = windows_note(self.shape, self.model.preprocessing.size, self.overlap, own)
        return replace(
            first,
            values=values,
            title=windows_title(first.title, len(self)),
            photo=self.photo,
            geometry=self.geometry,
            target=_mean(heats, "target") if named else None,
            against=_mean(heats, "against"),
            prefix_share=float(np.mean(shares)) if shares else None,
            figures={},
            notes=(note, *_distinct(heats)),
            provenance={
                **first.provenance,
                "photo_sha256": self.photo.sha256,
                "geometry": asdict(self.geometry),
                "target": None if not named else first.provenance["target"],
                "windows": {
                    "long_side": self.long_side,
                    "overlap": self.overlap,
                    "first_cells": [list(place) for place in self.places],
                    "targets": [heat.provenance["target"] for heat in heats],
                },
            },
            windows=tuple(Window(self.box(i), answer) for i, answer in enumerate(answers)),
        )

    def _answer(self, index: int) -> Target | None:
        return find_target(self.trace(index), None) if self.model.classes else None


def _mean(heats: Sequence[HeatMap], which: str) -> Target | None:
    """The class that all windows were explained for, with its mean probability."""
    given = [getattr(heat, which) for heat in heats]
    if any(target is None for target in given):
        return None
    return replace(given[0], probability=float(np.mean([t.probability for t in given])))


def _distinct(heats: Sequence[HeatMap]) -> list[Sentence]:
    """The windows' notes, the first of each kind."""
    found: dict[str, Sentence] = {}
    for heat in heats:
        for note in heat.notes:
            found.setdefault(note.key, note)
    return list(found.values())
