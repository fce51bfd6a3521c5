"""A view of the page as plain values: what a link or a recipe of it holds.

A view says which example photo, model, tab, class, methods and display options are looked at.
It never holds a photo of the visitor's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlencode

from app.scene import Display, Request
from explainers.look import Look
from explainers.models.vision_model import VisionModel
from explainers.registry import Parameter, find_method
from explainers.views.steps import STEPS

TABS = ("explain", "attention", "inside", "anatomy", "compare")

VERSION = 1
"""Of the recipes of views that are written."""

COMPARE = "compare."
"""Before the names of what is compared, in a link; no method is called so."""

BOARD = "board."
"""Before what the Attention tab looks at."""

PLACE = "place."
"""Before where the Anatomy tab stands."""

BETWEEN = "|"
"""Between the names of a list there: classes have commas in their names."""


@dataclass(frozen=True)
class View:
    """What a link or recipe asks for; None and what is missing: it stays as it is.

    photo: an example's name. target, against: a class by index or label, or {"index", "label"}.
    parameters: method → setting → value, the settings that are not their defaults. display:
    fields of `Display`. compare: what the Compare tab compares, lists of names and its scale.
    board: block, head, token, direction, scale and opacity of the Attention tab. place: patch,
    block, head and asking token of the Anatomy tab. size: the input (height, width) in pixels that
    maps were made at, where they are shown again. Settings, classes, board, place and size are
    checked once the model is known, by `link_fit.fit`.
    """

    photo: str | None = None
    model: str | None = None
    tab: str | None = None
    step: str | None = None
    target: Any = None
    against: Any = None
    methods: tuple[str, ...] | None = None
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    display: Mapping[str, Any] = field(default_factory=dict)
    look: Look | None = None
    compare: Mapping[str, Any] = field(default_factory=dict)
    board: Mapping[str, Any] = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)
    size: tuple[int, int] | None = None

    def query(self) -> str:
        """The view as the query of an address, without "?"; what is usual is left out, and so are
        the classes where the photo is not in it that they were chosen for."""
        usual = asdict(Display())
        aims = {"target": _index(self.target), "against": _index(self.against)}
        found: dict[str, Any] = {
            "photo": self.photo,
            "model": self.model,
            "tab": self.tab,
            "step": self.step if self.tab == "anatomy" else None,
            **(aims if self.photo is not None else {}),
            "methods": None if self.methods is None else ",".join(self.methods),
            **{name: v for name, v in self.display.items() if v != usual[name]},
        }
        if self.look is not None and self.look.kind != "own":
            found |= {"look": self.look.kind, "side": self.look.long_side}
        for method, given in self.parameters.items():
            found |= {f"{method}.{name}": value for name, value in given.items()}
        if self.tab == "compare":
            found |= {f"{COMPARE}{name}": value for name, value in self.compare.items()}
        if self.tab == "attention":
            found |= {f"{BOARD}{name}": value for name, value in self.board.items()}
        if self.tab == "anatomy":
            found |= {f"{PLACE}{name}": value for name, value in self.place.items()}
        plain = {name: _text(value) for name, value in found.items() if value is not None}
        return urlencode(plain, safe=",")

    def to_json(self) -> str:
        """The contents of a recipe file of the view."""
        contents = {"vitscope_view": VERSION, **asdict(self)}
        return json.dumps(contents, ensure_ascii=False, indent=2) + "\n"


def view_of(
    request: Request,
    tab: Any,
    step: Any,
    photo: str | None,
    vit: VisionModel | None,
    compare: Mapping[str, Any] | None = None,
    board: Mapping[str, Any] | None = None,
    place: Mapping[str, Any] | None = None,
) -> View:
    """The view that a request shows; ``photo``: the example that the photo is, if it is one.

    ``vit``: the scene's model, where it is loaded; without it no classes and settings are told.
    compare: what the Compare tab compares. board: what the Attention tab looks at.
    place: where the Anatomy tab stands.
    """
    scene = request.scene
    ticked = {name: request.parameters.get(name, {}) for name in request.methods}
    return View(
        photo=photo,
        model=scene.model,
        tab=tab if tab in TABS else TABS[0],
        step=step if step in STEPS else STEPS[0],
        target=_named(scene.target, vit),
        against=_named(scene.against, vit),
        methods=request.methods,
        parameters={} if vit is None else _changed(ticked, vit.adapter.depth),
        display=asdict(request.display),
        look=scene.look,
        compare=compare or {},
        board=board or {},
        place=place or {},
    )


def _changed(ticked: Mapping[str, Mapping[str, Any]], depth: int) -> dict[str, dict[str, Any]]:
    """The settings that differ from what the page offers first."""
    found = {}
    for name, given in ticked.items():
        usual = {p.name: _usual(p, depth) for p in find_method(name).parameters}
        changed = {k: value for k, value in given.items() if value != usual[k]}
        if changed:
            found[name] = changed
    return found


def _usual(parameter: Parameter, depth: int) -> Any:
    if parameter.kind != "block":
        return parameter.default
    return min(max(parameter.default % depth, 0), depth - 1)


def _named(index: int | None, vit: VisionModel | None) -> dict[str, Any] | None:
    """A class as recipes name it."""
    if index is None or vit is None:
        return None
    return {"index": index, "label": vit.label(index)}


def _index(aim: Any) -> Any:
    return aim["index"] if isinstance(aim, Mapping) else aim


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return BETWEEN.join(map(str, value))
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)
