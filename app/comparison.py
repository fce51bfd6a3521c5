"""What is compared, and what has come of it so far: models × methods × classes × photos."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.scene import Scene
from explainers import HeatMap, Photo, methods
from explainers.sentence import Sentence

MOST = 36
"""Maps of one comparison."""

MODELS, PHOTOS = 3, 4
"""Models and photos of one comparison; as many models are kept loaded."""

CHOSEN = "@chosen"
"""The class chosen above the tabs, or the likeliest one where none is."""

RANKS = {"@1": 0, "@2": 1, "@3": 2}
"""The model's own likeliest classes."""


@dataclass(frozen=True)
class Asked:
    """What is to be compared. photos: files of the visitor. classes: `CHOSEN`, `RANKS`, or a
    class by name or index. parameters: method → its settings, as the Explain tab has them."""

    scene: Scene
    photos: tuple[str, ...]
    models: tuple[str, ...]
    methods: tuple[str, ...]
    classes: tuple[str, ...]
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.photos) * len(self.models) * len(self.classes) * len(self.methods)


@dataclass
class Cell:
    """One map's place. heat: when it is made. reason: why there is none; same: because it is
    the one of the first class, being the same for all of them."""

    photo: int
    model: str
    aim: str
    method: str
    heat: HeatMap | None = None
    reason: Sentence | None = None
    failed: bool = False
    same: bool = False
    pictures: dict[Hashable, str] = field(default_factory=dict)
    """Drawn already, by how it was drawn."""

    @property
    def waiting(self) -> bool:
        return self.heat is None and self.reason is None and not self.same and not self.failed


@dataclass
class Comparison:
    """The maps so far. photos: None for one that cannot be read; answers: (photo, model) → the
    likeliest class as (label, probability)."""

    asked: Asked
    photos: list[Photo | None]
    cells: list[Cell]
    answers: dict[tuple[int, str], tuple[str, float]] = field(default_factory=dict)
    working: str = ""
    """What is being done: "loading", "trace" or a method's name."""
    share: float = 0.0

    @property
    def nbytes(self) -> int:
        photos = sum(photo.pixels.nbytes for photo in self.photos if photo is not None)
        return photos + sum(10**5 + h.values.nbytes for h in (c.heat for c in self.cells) if h)

    @property
    def to_make(self) -> list[Cell]:
        """The cells with a map of their own: what is the same for every class is made once."""
        first = self.asked.classes[0]
        return [c for c in self.cells if c.aim == first or methods()[c.method].class_specific]

    @property
    def heats(self) -> list[HeatMap]:
        return [cell.heat for cell in self.cells if cell.heat is not None]


def check(asked: Asked) -> None:
    """ValueError where nothing, or too much, is asked for."""
    if not asked.count:
        raise ValueError(
            Sentence(
                "compare_nothing",
                "A comparison takes at least one photo, one model, one method and one class.",
            )
        )
    if asked.count > MOST or len(asked.models) > MODELS or len(asked.photos) > PHOTOS:
        raise ValueError(
            Sentence(
                "compare_too_many",
                "{photos} photos × {models} models × {classes} classes × {methods} methods are "
                "{count} maps; at most {most} are compared at once, of {most_photos} photos and "
                "{most_models} models.",
                photos=len(asked.photos),
                models=len(asked.models),
                classes=len(asked.classes),
                methods=len(asked.methods),
                count=asked.count,
                most=MOST,
                most_photos=PHOTOS,
                most_models=MODELS,
            )
        )
