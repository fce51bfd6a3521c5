"""What callers ask of methods: their names, their settings, and the size of the look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.api_fields import METHODS, MODEL, demand, refusal
from app.link_values import LOOKS
from app.look_control import LONGEST
from explainers import Photo, VisionModel
from explainers.look import Look
from explainers.methods.parameters import ANY_COUNT, check_parameters
from explainers.registry import find_method
from explainers.scalars import shown, whole_number
from explainers.sentence import Sentence

Settings = dict[str, dict[str, Any]]
"""Method → setting → value."""


def model_name(text: str | None) -> str:
    """The model's name; the embedded one's where none is given."""
    return (text or "").strip() or MODEL


def listed(names: str | None) -> list[str]:
    """The names between commas, each once."""
    parts = [part.strip() for part in (names or "").split(",")]
    return list(dict.fromkeys(part for part in parts if part))


def method_names(names: str | None) -> tuple[str, ...]:
    """Methods there are; ValueError for another name."""
    return tuple(find_method(name).name for name in listed(METHODS if names is None else names))


def checked_settings(given: Any, vit: VisionModel | None = None) -> Settings:
    """The settings if they are such, by the library's own check; ValueError where not.

    What depends on the photo, as the number of a token, is checked when the map is made; so is
    what depends on the model, where it is not given.
    """
    table = _table("settings", given)
    one_grid = vit is not None and bool(vit.adapter.one_grid_support())
    depth = ANY_COUNT if vit is None else vit.adapter.depth
    heads = vit.adapter.heads if vit is not None and one_grid else ANY_COUNT
    found: Settings = {}
    for name, chosen in table.items():
        chosen = _table(f"settings of {name}", chosen)
        check_parameters(find_method(name), chosen, depth, heads, ANY_COUNT)
        found[name] = dict(chosen)
    return found


def look_of(size: Any, long_side: Any, photo: Photo) -> Look:
    """The look that is asked for; a whole photo of its own size is taken at 2,048 pixels at most.

    ValueError for a kind or a long side that there is not.
    """
    demand("size", size, LOOKS)
    side = None if long_side is None else whole_number(long_side)
    if size == "own":
        if long_side is not None:
            raise refusal("long_side", long_side, "null, where size is own")
        return Look()
    if long_side is not None and (side is None or not 1 <= side <= LONGEST):
        raise refusal("long_side", long_side, f"a whole number of pixels from 1 to {LONGEST}")
    if size == "whole":
        return Look("whole", side or min(max(photo.height, photo.width), LONGEST))
    return Look("windows", side)


def _table(name: str, given: Any) -> Mapping[str, Any]:
    if given is None or isinstance(given, Mapping):
        return given or {}
    raise ValueError(
        Sentence(
            "api_settings",
            'Settings are a JSON object, method → setting → value, as {{"attention": {{"block": '
            "0}}}}; {name} came as {given}.",
            name=name,
            given=shown(given),
        )
    )
