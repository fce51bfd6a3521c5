"""Checking a method's settings against its declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explainers.registry import Method, Parameter
from explainers.scalars import real_number, shown, whole_number
from explainers.sentence import Sentence

ANY_COUNT = 10**6
"""Of blocks, heads or tokens, more than any model has: for what is not known yet."""


def check_parameters(
    method: Method, given: Mapping[str, Any], depth: int, heads: int, tokens: int
) -> dict[str, Any]:
    """All settings of a method, defaults filled in, blocks and heads counted from 0.

    Raises ValueError naming the range for an unknown or out-of-range setting.
    """
    known = {parameter.name: parameter for parameter in method.parameters}
    for name in given:
        if name not in known:
            raise ValueError(
                Sentence(
                    "unknown_parameter",
                    "{method} has no setting {name!r}; it has: {known}.",
                    method=method.name,
                    name=name,
                    known=", ".join(known) or "none",
                )
            )
    sizes = {"block": depth, "head": heads, "token": tokens}
    return {
        name: _check(parameter, given.get(name, parameter.default), sizes.get(parameter.kind, 0))
        for name, parameter in known.items()
    }


def _check(parameter: Parameter, value: Any, size: int) -> Any:
    kind = parameter.kind
    if kind in ("choice", "head") and isinstance(value, str) and value in parameter.choices:
        return value
    if kind == "token" and value is None:
        return None
    whole = whole_number(value)
    if kind in ("block", "head", "token"):
        lowest = 0 if kind == "token" else -size
        if whole is not None and lowest <= whole < size:
            return whole % size
        expected = f"a whole number in {lowest}..{size - 1}"
        if parameter.choices:
            expected += " or one of " + ", ".join(parameter.choices)
    elif kind == "choice":
        expected = "one of " + ", ".join(parameter.choices)
    else:
        number = whole if kind == "integer" else real_number(value)
        low, high = parameter.low, parameter.high
        if (
            number is not None
            and (low is None or number >= low)
            and (high is None or number <= high)
        ):
            return number
        expected = f"{'a whole number' if kind == 'integer' else 'a number'} in {low}..{high}"
    raise ValueError(
        Sentence(
            "bad_parameter",
            "Setting {name} must be {expected}, got {value}.",
            name=parameter.name,
            expected=expected,
            value=shown(value),
        )
    )
