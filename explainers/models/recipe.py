"""What a config.json, or a weights file's header, says about the model: read and checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from explainers.models.errors import ModelError
from explainers.scalars import shown
from explainers.sentence import Sentence

_PLACES = ("url", "file", "state_dict", "hf_hub_id", "hf_hub_filename", "source", "custom_load")


@dataclass(frozen=True)
class Recipe:
    """What timm needs, beyond the weights, to build a model.

    config: fields of timm's PretrainedCfg, or None for the architecture's own. arguments: to
    the model's constructor. labels: as written there, not yet compared with the head.
    foreign: not one of timm's own checkpoints, whose classes are known.
    """

    architecture: str
    config: dict[str, Any] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    labels: Any = None
    foreign: bool = False


def read_recipe(path: Path) -> Recipe | None:
    """The recipe in a timm config.json (both of its forms); None when it names none.

    Raises ModelError when the file is not JSON, or a value in it is not of its kind.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            Sentence(
                "config_unreadable",
                "{name} beside the weights cannot be read ({reason}); expected timm's JSON.",
                name=path.name,
                reason=str(error),
            )
        ) from error
    return _recipe(found, path.name)


def header_recipe(text: str, source: str) -> Recipe | None:
    """The recipe in a weights file's header; None where there is none.

    Any program may have written the file, so what is not JSON is not taken for a fault.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _recipe(found, source)


def _recipe(found: Any, source: str) -> Recipe | None:
    """What timm's JSON says; None when it names no architecture."""
    from timm.models import PretrainedCfg

    if not isinstance(found, dict) or not isinstance(found.get("architecture"), str):
        return None
    inner, arguments = found.get("pretrained_cfg", found), found.get("model_args") or {}
    for name, value in (("pretrained_cfg", inner), ("model_args", arguments)):
        if not isinstance(value, dict):
            raise _misfit(source, name, "an object {…}", value)
    top = {k: found[k] for k in ("num_classes", "label_names", "label_descriptions") if k in found}
    merged = {**inner, **top}
    known = {item.name for item in fields(PretrainedCfg)} - {*_PLACES}
    config = {
        key: value
        for key, value in _tuples(merged).items()
        if key in known and not key.startswith("label_") and value is not None
    }
    for name, (expected, fits) in _FIELDS.items():
        if name in config and not fits(config[name]):
            raise _misfit(source, name, expected, merged[name])
    arguments = _tuples(arguments)
    config.setdefault("num_classes", arguments.get("num_classes", 1000))
    labels = merged.get("label_names", merged.get("labels"))
    described = merged.get("label_descriptions")
    if isinstance(labels, list) and isinstance(described, dict):
        labels = [described.get(name, name) if isinstance(name, str) else name for name in labels]
    return Recipe(found["architecture"], config, arguments, labels, foreign=True)


def _tuples(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in found.items()}


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: Any, lowest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= lowest


def _sizes(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(_whole(v, 1) for v in value)


def _colours(value: Any) -> bool:
    return isinstance(value, tuple) and all(_number(v) for v in value)


def _names(value: Any) -> bool:
    several = value if isinstance(value, tuple) else (value,)
    return all(isinstance(name, str) for name in several)


_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "num_classes": ("a whole number from 0 up", lambda value: _whole(value, 0)),
    "input_size": ("three whole numbers above 0", _sizes),
    "mean": ("a list of numbers", _colours),
    "std": ("a list of numbers", _colours),
    "crop_pct": ("a number", _number),
    "crop_mode": ("a text", lambda value: isinstance(value, str)),
    "interpolation": ("a text", lambda value: isinstance(value, str)),
    "classifier": ("a name or a list of names", _names),
    "first_conv": ("a name or a list of names", _names),
    "architecture": ("a text", lambda value: isinstance(value, str)),
    "tag": ("a text", lambda value: isinstance(value, str)),
}
"""Fields that are read here or by timm, and of what kind each must be; ranges are checked later."""


def _misfit(source: str, field_name: str, expected: str, value: Any) -> ModelError:
    return ModelError(
        Sentence(
            "config_field",
            "In {source}, {field} must be {expected}, and {value} came; correct it or leave it "
            "out.",
            source=source,
            field=field_name,
            expected=expected,
            value=shown(value),
        )
    )
