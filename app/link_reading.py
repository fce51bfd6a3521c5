"""Reading a view out of a link or a file, where anybody may have written anything.

It is checked value by value: one that does not exist here is left out, with one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from app import example_photos, link_values
from app.links import BETWEEN, BOARD, COMPARE, PLACE, TABS, VERSION, View
from app.look_control import STEP
from app.scene import Display
from explainers.models.sizes import scaled_size
from explainers.recipe import MapRecipe
from explainers.registry import methods
from explainers.sentence import Sentence
from explainers.views.steps import STEPS

Raw = Mapping[str, Any]
"""A view as it was found in a link or a file: nothing in it is checked."""


def from_query(query: Mapping[str, str]) -> Raw:
    """The view in an address's query, unchecked; empty where the query is about other things."""
    parts_of_it = {"parameters", "display", "look", "compare", "board", "place", "size"}
    names = {f.name for f in fields(View)} - parts_of_it
    query = {name: value for name, value in query.items() if value or name == "methods"}
    raw: dict[str, Any] = {name: query[name] for name in names if name in query}
    display = {f.name: query[f.name] for f in fields(Display) if f.name in query}
    settings: dict[str, dict[str, Any]] = {}
    compare: dict[str, Any] = {}
    board: dict[str, Any] = {}
    place: dict[str, Any] = {}
    for name, value in query.items():
        method, dot, setting = name.partition(".")
        if name.startswith(COMPARE):
            listed = [part for part in value.split(BETWEEN) if part]
            compare[setting] = value if setting == "scale" else listed
        elif name.startswith(BOARD):
            board[setting] = value
        elif name.startswith(PLACE):
            place[setting] = value
        elif dot:
            settings.setdefault(method, {})[setting] = value
    if "methods" in raw:
        raw["methods"] = [name for name in raw["methods"].split(",") if name]
    if "look" in query:
        raw["look"] = {"kind": query["look"], "long_side": query.get("side")}
    parts = {"display": display, "parameters": settings, "compare": compare, "board": board}
    parts["place"] = place
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
        "look": _look(first),
        "size": None if "windows" in first else first["preprocessing"]["size"],
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


def _look(made: Mapping[str, Any]) -> dict[str, Any]:
    """The size of the look that a map was made with: of windows, or of a whole photo."""
    if "windows" in made:
        return {"kind": "windows", "long_side": made["windows"]["long_side"]}
    size, geometry = tuple(made["preprocessing"]["size"]), made["geometry"]
    if made["preprocessing"].get("crop_mode") == "squash":
        sides = range(max(size), max(size) + max(geometry["patch"]))
        for side in sorted(sides, key=lambda side: side % STEP > 0):  # as the page offers them
            if scaled_size(geometry["photo_size"], geometry["patch"], side) == size:
                return {"kind": "whole", "long_side": side}
    return {"kind": "own"}


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
            methods=tuple(dict.fromkeys(chosen)) if chosen or listed == [] else None,
            parameters=link_values.settings(raw.get("parameters"), problems),
            display=link_values.display(raw.get("display"), problems),
            look=link_values.look(raw.get("look"), problems),
            compare=link_values.compared(raw.get("compare"), problems),
            board=link_values.board(raw.get("board"), problems),
            place=link_values.place(raw.get("place"), problems),
            size=link_values.size(raw.get("size")),
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


def remarks(raw: Raw) -> list[Sentence]:
    """What has to be said of a view's file as a whole."""
    found = []
    if raw["vitscope_view"] != VERSION:
        found.append(
            Sentence(
                "view_version",
                "The file was saved by another version of ViTScope; what is not known here is "
                "left out.",
            )
        )
    if raw.get("photo") is None:
        found.append(
            Sentence(
                "view_no_photo",
                "The file holds no photo; choose the photo above to see what was seen.",
            )
        )
    return found


def no_view(path: Path) -> Sentence:
    """Said of a file that tells nothing that could be shown."""
    return Sentence(
        "view_none",
        "{path} holds no recipe of a view or of maps; give a file that ViTScope saved.",
        path=path.name,
    )
