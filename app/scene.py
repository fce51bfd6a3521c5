"""What one visitor looks at: chosen above the tabs, the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from explainers.look import Look
from explainers.render.colours import SIGNED, UNSIGNED


@dataclass(frozen=True)
class Scene:
    """photo: a file in the visitor's folder. model: its name; the classes are its classes.
    target: a class, None for the most likely one. against: the class it is compared with
    ("and not"), None for no contrast. look: at the model's own size, or another."""

    photo: str | None = None
    model: str = "embedded"
    target: int | None = None
    against: int | None = None
    look: Look = field(default_factory=Look)

    @property
    def eye(self) -> str:
        """What looks at the photo: the model's name, and how it looks where not in its own way."""
        if self.look.kind == "own":
            return self.model
        return f"{self.model} · {self.look.kind} {self.look.long_side}"

    @property
    def single(self) -> str:
        """The same for the one look that all tabs share: of windows, the model's own one."""
        return self.model if self.look.kind == "windows" else self.eye


def with_model(scene: Scene, name: str) -> Scene:
    """The scene with another model; classes chosen for the one before mean nothing to it."""
    if scene.model == name:
        return scene
    return replace(scene, model=name, target=None, against=None)


@dataclass(frozen=True)
class Display:
    """How maps are drawn; changing it never runs a model. The fields are in the order of the
    page's controls. extent: the colour range, "own", "shared", "minmax" or "percentile"."""

    opacity: float = 0.55
    unsigned: str = UNSIGNED[0]
    signed: str = SIGNED[0]
    style: str = "overlay"
    extent: str = "own"
    smooth: bool = False


@dataclass(frozen=True)
class Request:
    """All that decides what the Explain tab shows."""

    scene: Scene
    methods: tuple[str, ...] = ()
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    display: Display = field(default_factory=Display)
