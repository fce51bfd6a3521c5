"""HeatMap: one explanation of one photo, with its meaning and provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from explainers.image import Geometry, Photo
from explainers.sentence import Sentence

if TYPE_CHECKING:
    from PIL import Image

FLAT = 1e-6
"""A map is flat when max − min ≤ FLAT · max|v|: no cell stands out."""

Kind = Literal["grid", "pixels", "rgb"]


@dataclass(frozen=True)
class Target:
    """The class a map speaks of: index, label and the model's probability for the photo."""

    index: int
    label: str
    probability: float


@dataclass(frozen=True)
class Window:
    """One of several separate looks: (left, top, right, bottom) in photo pixels, and its answer."""

    box: tuple[float, float, float, float]
    answer: Target | None


@dataclass(frozen=True)
class Finding:
    """What a method's function returns; `explain` completes it to a HeatMap.

    values: (h, w) grid, (H, W) model-input pixels, or (h, w, 3) for kind "rgb"; raw numbers.
    """

    values: np.ndarray
    kind: Kind = "grid"
    prefix_share: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[Sentence, ...] = ()


@dataclass(frozen=True, eq=False)
class HeatMap:
    """One explanation of one photo.

    values: raw numbers of the method's definition, never rescaled: the grid (h, w), the
    model-input pixels (H, W), or (h, w, 3) for kind "rgb"; finite, float32 (float64 for a
    float64 model). prefix_share: the part of the decision row that lies on prefix tokens.
    figures: numbers a method reports beside its map, by name (``…_percent`` in per cent).
    provenance: everything needed to make the same map again; no dates, no paths. windows: the
    separate looks that it is the mean of; none where the model looked once.
    """

    values: np.ndarray
    kind: Kind
    signed: bool
    method: str
    title: str
    meaning: str
    photo: Photo
    geometry: Geometry
    target: Target | None
    against: Target | None
    parameters: Mapping[str, Any]
    prefix_share: float | None
    figures: Mapping[str, float]
    notes: tuple[Sentence, ...]
    provenance: Mapping[str, Any]
    windows: tuple[Window, ...] = ()

    @property
    def flat(self) -> bool:
        """No cell stands out: max − min ≤ 1e-6 · max|v|."""
        low, high = float(self.values.min()), float(self.values.max())
        return high - low <= FLAT * max(abs(low), abs(high))

    def overlay(self, **options: Any) -> Image.Image:
        """The map on the original photo; options as in `explainers.render.overlay.overlay`."""
        from explainers.render.overlay import overlay

        return overlay(self, **options)

    def _repr_png_(self) -> bytes:
        """The overlay, as Jupyter shows it."""
        buffer = BytesIO()
        self.overlay().save(buffer, "PNG")
        return buffer.getvalue()

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write the map: .npz (numbers and provenance) or .png, .pdf, .svg (the overlay)."""
        from explainers.render.export import save

        return save(self, path, **options)
