"""The parts of a link or recipe that only its model can tell the worth of: classes, settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.link_values import refusal
from app.links import View
from explainers.look import Look
from explainers.methods.parameters import ANY_COUNT, check_parameters
from explainers.models.vision_model import VisionModel
from explainers.registry import find_method
from explainers.scalars import shown
from explainers.sentence import Sentence


@dataclass(frozen=True)
class Fitted:
    """What of a view's classes, settings and place on the Attention tab a model has."""

    target: int | None
    against: int | None
    parameters: Mapping[str, Mapping[str, Any]]
    board: Mapping[str, Any]
    place: Mapping[str, Any]


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
            sizes = adapter.depth, adapter.heads, ANY_COUNT  # `explain` checks the tokens again
            try:
                checked = check_parameters(find_method(name), {setting: value}, *sizes)
            except ValueError as error:
                problems.append(error.args[0])
                continue
            parameters.setdefault(name, {})[setting] = checked[setting]
    board = _within("board", view.board, vit, problems)
    place = _within("place", view.place, vit, problems)
    if view.size not in (None, vit.preprocessing.size) and (view.look or Look()) == Look():
        problems.append(
            Sentence(
                "view_other_size",
                "The maps were made at {then} pixels (height × width); here the model looks at "
                "{now}, so they differ.",
                then="×".join(map(str, view.size or ())),
                now="×".join(map(str, vit.preprocessing.size)),
            )
        )
    return Fitted(aims[0], aims[1], parameters, board, place), problems


def _within(
    part: str, given: Mapping[str, Any], vit: VisionModel, problems: list[Sentence]
) -> dict[str, Any]:
    """The places that the model has."""
    found = dict(given)
    for name, count in (("block", vit.adapter.depth), ("head", vit.adapter.heads)):
        value = found.get(name)
        if isinstance(value, int) and value >= count:
            problems.append(refusal(f"{part}.{name}", value, f"0 … {count - 1}"))
            del found[name]
    return found


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
