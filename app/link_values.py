"""The values of a link or a recipe, each checked against what exists here.

Each function returns what is good of what was given, and adds a sentence to ``problems`` for
what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app import example_photos
from app.anatomy_pieces import PATCH
from app.comparison import MODELS
from app.look_control import LONGEST, SHORTEST
from explainers.look import Look
from explainers.registry import find_method, methods
from explainers.render.colours import SIGNED, UNSIGNED
from explainers.render.overlay import STYLES
from explainers.scalars import real_number, shown, whole_number
from explainers.sentence import Sentence

EXTENTS = ("own", "shared", "minmax", "percentile")
LOOKS = ("own", "whole", "windows")
SHARE = Sentence("kind_share", "a number from 0 to 1")
NUMBER = Sentence("kind_number", "a number that the model has")
NAME = Sentence("kind_name", "a name")
NAMES = Sentence("kind_names", "a list of names")
LOOK = Sentence("kind_look", "an object with kind and long_side")
TABLE = Sentence("kind_table", "an object of names and values")
SCALES = ("own", "shared")
"""How the maps of a comparison share their colours."""


def settings(given: Any, problems: list[Sentence]) -> dict[str, dict[str, Any]]:
    """Settings of methods there are, in the setting's own type; their range is checked later."""
    found: dict[str, dict[str, Any]] = {}
    for name, chosen in _table("parameters", given, problems).items():
        if name not in methods():
            problems.append(refusal("methods", name, ", ".join(methods())))
            continue
        kinds = {parameter.name: parameter.kind for parameter in find_method(name).parameters}
        for setting, value in _table(str(name), chosen, problems).items():
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


def display(given: Any, problems: list[Sentence]) -> dict[str, Any]:
    """The display options that there are."""
    checks: dict[str, tuple[Callable[[Any], Any], str]] = {
        "opacity": (_share, SHARE),
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
            problems.append(refusal("display", name, ", ".join(checks)))
            continue
        check, known = checks[name]
        fine = check(value)
        if fine is None:
            problems.append(refusal(name, value, known))
        else:
            found[name] = fine
    return found


def look(given: Any, problems: list[Sentence]) -> Look | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        problems.append(refusal("look", given, LOOK))
        return None
    kind, side = given.get("kind"), _typed(given.get("long_side"), "integer")
    if kind not in LOOKS:
        problems.append(refusal("look", kind, ", ".join(LOOKS)))
        return None
    if kind == "own" or side is None:
        return Look(kind)
    whole = whole_number(side)
    if whole is None or not SHORTEST <= whole <= LONGEST:
        problems.append(refusal("side", side, f"{SHORTEST} … {LONGEST}"))
        return None
    return Look(kind, whole)


def compared(given: Any, problems: list[Sentence]) -> dict[str, Any]:
    """What the Compare tab compares; a class is checked when it is compared."""
    photos = tuple(example_photos.names())
    known: dict[str, tuple[str, ...] | None] = {
        "models": None,
        "methods": tuple(methods()),
        "classes": None,
        "photos": photos,
    }
    found: dict[str, Any] = {}
    for name, value in _table("compare", given, problems).items():
        if name == "scale":
            if value in SCALES:
                found["scale"] = value
            else:
                problems.append(refusal("compare.scale", value, ", ".join(SCALES)))
        elif name not in known:
            problems.append(refusal("compare", name, ", ".join((*known, "scale"))))
        elif not isinstance(value, (list, tuple)):
            problems.append(refusal(f"compare.{name}", value, NAMES))
        elif name == "models" and len(value) > MODELS:
            problems.append(refusal("compare.models", f"{len(value)} names", f"1 … {MODELS} names"))
        elif good := _listed(f"compare.{name}", value, known[name], problems):
            found[name] = good
    return found


BOARD_SCALES = ("own", "fixed")
"""How the maps of the Attention tab share their colours."""

PLACE = {"row": 1, "column": 1, "block": 0, "head": 0, "asks": 0}
"""What says where the Anatomy tab stands, and the least number of each."""

HEADS = ("mean", "rolled")
"""What stands in place of a head's number on the Attention tab: their mean, and the rollout."""


def board(given: Any, problems: list[Sentence]) -> dict[str, Any]:
    """What the Attention tab looks at; whether the model has such a block is checked later."""
    found: dict[str, Any] = {}
    for name, value in _table("board", given, problems).items():
        kind: Any = NUMBER
        if name == "who":
            fine: Any = _switch(value)
            kind = "0, 1"
        elif name == "scale":
            fine = value if value in BOARD_SCALES else None
            kind = ", ".join(BOARD_SCALES)
        elif name == "opacity":
            fine, kind = _share(value), SHARE
        elif name == "head" and value in HEADS:
            fine = value
        elif name in ("block", "head", "token"):
            fine = whole_number(_typed(value, "integer"))
            fine = None if fine is None or fine < (-1 if name == "token" else 0) else fine
        else:
            problems.append(refusal("board", name, "block, head, token, who, scale, opacity"))
            continue
        if fine is None:
            problems.append(refusal(f"board.{name}", value, kind))
        else:
            found[name] = fine
    return found


def place(given: Any, problems: list[Sentence]) -> dict[str, Any]:
    """Where the Anatomy tab stands: patch (from 1), block, head, and the token that asks.

    Whether the model has such a place is checked later.
    """
    found: dict[str, Any] = {}
    for name, value in _table("place", given, problems).items():
        if name not in PLACE:
            problems.append(refusal("place", name, ", ".join(PLACE)))
            continue
        whole = whole_number(_typed(value, "integer"))
        if name == "asks" and value == PATCH:
            found[name] = value
        elif whole is None or whole < PLACE[name]:
            problems.append(refusal(f"place.{name}", value, NUMBER))
        else:
            found[name] = str(whole) if name == "asks" else whole
    return found


def size(given: Any) -> tuple[int, int] | None:
    """Height and width in pixels, where that is what was given."""
    sides = [whole_number(side) for side in given] if isinstance(given, (list, tuple)) else []
    found = tuple(side for side in sides if side is not None and side > 0)
    return (found[0], found[1]) if len(found) == len(sides) == 2 else None


def _listed(
    name: str, given: Any, known: tuple[str, ...] | None, problems: list[Sentence]
) -> list[str]:
    """The texts of a list, each once; where ``known`` is given, those that are in it."""
    found = []
    for value in given:
        if isinstance(value, str) and (known is None or value in known):
            found.append(value)
        else:
            problems.append(refusal(name, value, ", ".join(known) if known else NAME))
    return list(dict.fromkeys(found))


def refusal(name: str, value: Any, known: str) -> Sentence:
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
    problems.append(refusal(name, given, TABLE))
    return {}
