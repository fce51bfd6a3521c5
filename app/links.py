"""A view of the page as plain values: what a link or a recipe of it holds, and its checks.

A view says which example photo, model, tab, class, methods and display options are looked at.
It never holds a photo of the visitor's own. What anybody may have written into a link or a file
is checked value by value: one that does not exist here is left out, with one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from app import example_photos, link_values
from app.scene import Display, Request
from explainers.look import Look
from explainers.models.vision_model import VisionModel
from explainers.recipe import MapRecipe
from explainers.registry import Parameter, find_method, methods
from explainers.sentence import Sentence
from explainers.views.steps import STEPS

TABS = ("explain", "attention", "inside", "anatomy", "compare")

COMPARE = "compare."
"""Before the names of what is compared, in a link; no method is called so."""

BOARD = "board."
"""Before what the Attention tab looks at."""

BETWEEN = "|"
"""Between the names of a list there: classes have commas in their names."""

Raw = Mapping[str, Any]
"""A view as it was found in a link or a file: nothing in it is checked."""


@dataclass(frozen=True)
class View:
    """What a link or recipe asks for; None and what is missing: it stays as it is.

    photo: an example's name. target, against: a class by index or label, or {"index", "label"}.
    parameters: method → setting → value, the settings that are not their defaults. display:
    fields of `Display`. compare: what the Compare tab compares, lists of names and its scale.
    board: block, head, token and direction of the Attention tab. Settings, classes and board are
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
        plain = {name: _text(value) for name, value in found.items() if value is not None}
        return urlencode(plain, safe=",")

    def to_json(self) -> str:
        """The contents of a recipe file of the view."""
        return json.dumps({"vitscope_view": 1, **asdict(self)}, ensure_ascii=False, indent=2) + "\n"


def view_of(
    request: Request,
    tab: Any,
    step: Any,
    photo: str | None,
    vit: VisionModel | None,
    compare: Mapping[str, Any] | None = None,
    board: Mapping[str, Any] | None = None,
) -> View:
    """The view that a request shows; ``photo``: the example that the photo is, if it is one.

    ``vit``: the scene's model, where it is loaded; without it no classes and settings are told.
    compare: what the Compare tab compares. board: what the Attention tab looks at.
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
    )


def from_query(query: Mapping[str, str]) -> Raw:
    """The view in an address's query, unchecked; empty where the query is about other things."""
    parts_of_it = {"parameters", "display", "look", "compare", "board"}
    names = {f.name for f in fields(View)} - parts_of_it
    raw: dict[str, Any] = {name: query[name] for name in names if name in query}
    display = {f.name: query[f.name] for f in fields(Display) if f.name in query}
    settings: dict[str, dict[str, Any]] = {}
    compare: dict[str, Any] = {}
    board: dict[str, Any] = {}
    for name, value in query.items():
        method, dot, setting = name.partition(".")
        if name.startswith(COMPARE):
            listed = [part for part in value.split(BETWEEN) if part]
            compare[setting] = value if setting == "scale" else listed
        elif name.startswith(BOARD):
            board[setting] = value
        elif dot:
            settings.setdefault(method, {})[setting] = value
    if "methods" in raw:
        raw["methods"] = [name for name in raw["methods"].split(",") if name]
    if "look" in query:
        raw["look"] = {"kind": query["look"], "long_side": query.get("side")}
    parts = {"display": display, "parameters": settings, "compare": compare, "board": board}
    return raw | {name: part for name, part in parts.items() if part}


def from_recipe(recipe: MapRecipe, examples: Mapping[str, str]) -> tuple[Raw, list[Sentence]]:
    """The view that shows the maps of a recipe, unchecked: those of its first model and photo.

    examples: hash of an example photo → its name.
    """
    first = recipe.maps[0]
    same = [
        made
        for made in recipe.maps
        if (made["model"], made["photo_sha256"]) == (first["model"], first["photo_sha256"])
    ]
    aims = [made for made in same if made["target"] is not None][:1] or [first]
    raw = {
        "photo": examples.get(first["photo_sha256"]),
        "model": first["model"],
        "tab": TABS[0],
        "target": aims[0]["target"],
        "against": aims[0]["against"],
        "methods": list(dict.fromkeys(made["method"] for made in same)),
        "parameters": {made["method"]: made["parameters"] for made in same},
    }
    if raw["photo"] is not None:
        return raw, []
    return raw, [
        Sentence(
            "view_own_photo",
            "The recipe was made from a photo that is none of the examples; choose that photo "
            "above to see the same maps.",
        )
    ]


def read(raw: Raw) -> tuple[View, list[Sentence]]:
    """The view with every value that does not need a model checked; and what was left out."""
    problems: list[Sentence] = []

    def one_of(name: str, value: Any, known: Iterable[str]) -> Any:
        known = tuple(known)
        if value is None or value in known:
            return value
        problems.append(link_values.refusal(name, value, ", ".join(known)))
        return None

    model, listed = raw.get("model"), raw.get("methods")
    if model is not None and not isinstance(model, str):
        problems.append(link_values.refusal("model", model, link_values.NAME))
    if listed is not None and not isinstance(listed, list):
        problems.append(link_values.refusal("methods", listed, ", ".join(methods())))
    chosen = []
    for name in listed if isinstance(listed, list) else []:
        if isinstance(name, str) and name in methods():
            chosen.append(name)
        else:
            problems.append(link_values.refusal("methods", name, ", ".join(methods())))
    return (
        View(
            photo=one_of("photo", raw.get("photo"), example_photos.names()),
            model=model.strip() or None if isinstance(model, str) else None,
            tab=one_of("tab", raw.get("tab"), TABS),
            step=one_of("step", raw.get("step"), STEPS),
            target=raw.get("target"),
            against=raw.get("against"),
            methods=tuple(dict.fromkeys(chosen)) if isinstance(listed, list) else None,
            parameters=link_values.settings(raw.get("parameters"), problems),
            display=link_values.display(raw.get("display"), problems),
            look=link_values.look(raw.get("look"), problems),
            compare=link_values.compared(raw.get("compare"), problems),
            board=link_values.board(raw.get("board"), problems),
        ),
        problems,
    )


def read_file(path: Path) -> Raw | None:
    """The view in a JSON file, unchecked; None where it is about something else.

    ValueError where it is no JSON object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(no_view(path))
    return found if "vitscope_view" in found else None


def no_view(path: Path) -> Sentence:
    """Said of a file that tells nothing that could be shown."""
    return Sentence(
        "view_none",
        "{path} holds no recipe of a view or of maps; give a file that ViTScope saved.",
        path=str(path),
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
