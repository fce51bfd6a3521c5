"""A view of the page as plain values: what a link or a recipe of it holds, and its checks.

A view says which example photo, model, tab, class, methods and display options are looked at.
It never holds a photo of the visitor's own. What anybody may have written into a link or a file
is checked value by value: one that does not exist here is left out, with one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from app import example_photos
from app.look_control import LONGEST, SHORTEST, STEP
from app.scene import Display, Request
from explainers.look import Look
from explainers.methods.parameters import check_parameters
from explainers.models.vision_model import VisionModel
from explainers.recipe import MapRecipe
from explainers.registry import Parameter, find_method, methods
from explainers.render.colours import SIGNED, UNSIGNED
from explainers.render.overlay import STYLES
from explainers.scalars import real_number, shown, whole_number
from explainers.sentence import Sentence
from explainers.views.steps import STEPS

TABS = ("explain", "attention", "inside", "anatomy", "compare")
EXTENTS = ("own", "shared", "minmax", "percentile")
LOOKS = ("own", "whole", "windows")

ANY_TOKENS = 10**6
"""Tokens of a look whose grid is not known yet; `explain` checks them again."""

Raw = Mapping[str, Any]
"""A view as it was found in a link or a file: nothing in it is checked."""


@dataclass(frozen=True)
class View:
    """What a link or recipe asks for; None and what is missing: it stays as it is.

    photo: an example's name. target, against: a class by index or label, or {"index", "label"}.
    parameters: method → setting → value, the settings that are not their defaults. display:
    fields of `Display`. Settings and classes are checked once the model is known, by `fit`.
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
        plain = {name: _text(value) for name, value in found.items() if value is not None}
        return urlencode(plain, safe=",")

    def to_json(self) -> str:
        """The contents of a recipe file of the view."""
        return json.dumps({"vitscope_view": 1, **asdict(self)}, ensure_ascii=False, indent=2) + "\n"


def view_of(
    request: Request, tab: Any, step: Any, photo: str | None, vit: VisionModel | None
) -> View:
    """The view that a request shows; ``photo``: the example that the photo is, if it is one.

    ``vit``: the scene's model, where it is loaded; without it no classes and settings are told.
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
    )


def from_query(query: Mapping[str, str]) -> Raw:
    """The view in an address's query, unchecked; empty where the query is about other things."""
    names = {f.name for f in fields(View)} - {"parameters", "display", "look"}
    raw: dict[str, Any] = {name: query[name] for name in names if name in query}
    display = {f.name: query[f.name] for f in fields(Display) if f.name in query}
    settings: dict[str, dict[str, Any]] = {}
    for name, value in query.items():
        method, dot, setting = name.partition(".")
        if dot:
            settings.setdefault(method, {})[setting] = value
    if "methods" in raw:
        raw["methods"] = [name for name in raw["methods"].split(",") if name]
    if "look" in query:
        raw["look"] = {"kind": query["look"], "long_side": query.get("side")}
    parts = {"display": display, "parameters": settings}
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
        problems.append(_refusal(name, value, ", ".join(known)))
        return None

    model, listed = raw.get("model"), raw.get("methods")
    if model is not None and not isinstance(model, str):
        problems.append(_refusal("model", model, "a name"))
    if listed is not None and not isinstance(listed, list):
        problems.append(_refusal("methods", listed, ", ".join(methods())))
    chosen = []
    for name in listed if isinstance(listed, list) else []:
        if isinstance(name, str) and name in methods():
            chosen.append(name)
        else:
            problems.append(_refusal("methods", name, ", ".join(methods())))
    return (
        View(
            photo=one_of("photo", raw.get("photo"), example_photos.names()),
            model=model.strip() or None if isinstance(model, str) else None,
            tab=one_of("tab", raw.get("tab"), TABS),
            step=one_of("step", raw.get("step"), STEPS),
            target=raw.get("target"),
            against=raw.get("against"),
            methods=tuple(dict.fromkeys(chosen)) if isinstance(listed, list) else None,
            parameters=_settings(raw.get("parameters"), problems),
            display=_display(raw.get("display"), problems),
            look=_look(raw.get("look"), problems),
        ),
        problems,
    )


@dataclass(frozen=True)
class Fitted:
    """The parts of a view that only its model can tell the worth of."""

    target: int | None
    against: int | None
    parameters: Mapping[str, Mapping[str, Any]]


def fit(view: View, vit: VisionModel) -> tuple[Fitted, list[Sentence]]:
    """Classes and settings that ``vit`` has; and a sentence for each that it does not have."""
    problems: list[Sentence] = []
    aims = []
    for aim in (view.target, view.against):
        try:
            aims.append(None if aim is None else _class(vit, aim))
        except (ValueError, TypeError) as error:
            problems.append(error.args[0])
            aims.append(None)
    if aims[0] is not None and aims[0] == aims[1]:
        problems.append(
            Sentence(
                "view_same_contrast",
                "The contrast is the class itself ({label}), so it is left out; choose another.",
                label=vit.label(aims[0]),
            )
        )
        aims[1] = None
    adapter = vit.adapter
    parameters: dict[str, dict[str, Any]] = {}
    for name, given in view.parameters.items():
        for setting, value in given.items():
            sizes = adapter.depth, adapter.heads, ANY_TOKENS
            try:
                checked = check_parameters(find_method(name), {setting: value}, *sizes)
            except ValueError as error:
                problems.append(error.args[0])
                continue
            parameters.setdefault(name, {})[setting] = checked[setting]
    return Fitted(aims[0], aims[1], parameters), problems


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


def _class(vit: VisionModel, aim: Any) -> int:
    """The index of a class; ValueError or TypeError where the model has no such class."""
    label = None
    if isinstance(aim, Mapping):
        aim, label = aim.get("index"), aim.get("label")
    if not vit.classes:
        raise ValueError(vit.supports("saliency").reason)
    index = vit.find_class(aim)  # type: ignore[arg-type]  # which says what it takes
    if isinstance(label, str) and label != vit.label(index):
        raise ValueError(
            Sentence(
                "view_label",
                "Class {index} is {then} in the recipe and {now} here, so it is left out; choose "
                "the class yourself.",
                index=index,
                then=shown(label),
                now=vit.label(index),
            )
        )
    return index


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


def _settings(given: Any, problems: list[Sentence]) -> dict[str, dict[str, Any]]:
    """Settings of methods there are, in the setting's own type; their range is checked later."""
    found: dict[str, dict[str, Any]] = {}
    for name, settings in _table("parameters", given, problems).items():
        if name not in methods():
            problems.append(_refusal("methods", name, ", ".join(methods())))
            continue
        kinds = {parameter.name: parameter.kind for parameter in find_method(name).parameters}
        for setting, value in _table(str(name), settings, problems).items():
            typed = _typed(value, kinds.get(str(setting), "choice"))
            found.setdefault(name, {})[str(setting)] = typed
    return found


def _typed(value: Any, kind: str) -> Any:
    """The number that a text of a link stands for, where the setting is one."""
    if not isinstance(value, str) or kind == "choice":
        return value
    for make in (int, float):
        try:
            return make(value)
        except ValueError:
            continue
    return value


def _display(given: Any, problems: list[Sentence]) -> dict[str, Any]:
    """The display options that there are."""
    checks: dict[str, tuple[Callable[[Any], Any], str]] = {
        "opacity": (_share, "a number from 0 to 1"),
        "unsigned": (_among(UNSIGNED), ", ".join(UNSIGNED)),
        "signed": (_among(SIGNED), ", ".join(SIGNED)),
        "style": (_among(STYLES), ", ".join(STYLES)),
        "extent": (_among(EXTENTS), ", ".join(EXTENTS)),
        "smooth": (_switch, "0, 1"),
    }
    found = {}
    for name, value in _table("display", given, problems).items():
        if value is None:
            continue
        if name not in checks:
            problems.append(_refusal("display", name, ", ".join(checks)))
            continue
        check, known = checks[name]
        fine = check(value)
        if fine is None:
            problems.append(_refusal(name, value, known))
        else:
            found[name] = fine
    return found


def _look(given: Any, problems: list[Sentence]) -> Look | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        problems.append(_refusal("look", given, "an object with kind and long_side"))
        return None
    kind, side = given.get("kind"), _typed(given.get("long_side"), "integer")
    if kind not in LOOKS:
        problems.append(_refusal("look", kind, ", ".join(LOOKS)))
        return None
    if kind == "own" or side is None:
        return Look(kind)
    whole = whole_number(side)
    if whole is None or not SHORTEST <= whole <= LONGEST:
        problems.append(_refusal("side", side, f"{SHORTEST} … {LONGEST}"))
        return None
    return Look(kind, round(whole / STEP) * STEP)


def _refusal(name: str, value: Any, known: str) -> Sentence:
    return Sentence(
        "view_value",
        "{name} cannot be {value} here, so that is left out; it can be: {known}.",
        name=name,
        value=shown(value),
        known=known,
    )


def _share(value: Any) -> float | None:
    number = real_number(_typed(value, "number"))
    return number if number is not None and 0 <= number <= 1 else None


def _switch(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"0": False, "1": True}.get(str(value))


def _among(known: tuple[str, ...]) -> Callable[[Any], str | None]:
    return lambda value: value if value in known else None


def _table(name: str, given: Any, problems: list[Sentence]) -> Mapping[Any, Any]:
    """Names and values; nothing, and a sentence, where something else was given."""
    if given is None or isinstance(given, Mapping):
        return given or {}
    problems.append(_refusal(name, given, "an object of names and values"))
    return {}


def _named(index: int | None, vit: VisionModel | None) -> dict[str, Any] | None:
    """A class as recipes name it."""
    if index is None or vit is None:
        return None
    return {"index": index, "label": vit.label(index)}


def _index(aim: Any) -> Any:
    return aim["index"] if isinstance(aim, Mapping) else aim


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)
