"""Numbers as people pass them: Python's, NumPy's or torch's, and nothing that only looks so."""

from __future__ import annotations

import operator
from typing import Any

from explainers.sentence import Sentence

LONGEST_SHOWN = 60
"""Characters of a value that an error quotes."""


def whole_number(value: Any) -> int | None:
    """A whole number of Python, NumPy or torch; None for all else: 3.0, "3", [3], True."""
    plain = _python(value)
    if isinstance(plain, bool) or getattr(plain, "ndim", None):
        return None
    try:
        return operator.index(plain)
    except TypeError:
        return None


def real_number(value: Any) -> float | None:
    """A whole or real number of Python, NumPy or torch; None for all else."""
    plain = _python(value)
    if isinstance(plain, bool) or not isinstance(plain, (int, float)):
        return None
    try:
        return float(plain)
    except OverflowError:  # a whole number of more than 308 digits
        return None


def index_in(name: str, value: Any, size: int) -> int:
    """``value`` as an index from 0 to size - 1. ValueError names the range."""
    index = whole_number(value)
    if index is None or not 0 <= index < size:
        raise ValueError(
            Sentence(
                "out_of_range",
                "{name} must be a whole number in 0..{last}, got {value}.",
                name=name,
                last=size - 1,
                value=shown(value),
            )
        )
    return index


def shown(value: Any) -> str:
    """A value as an error quotes it: one line, and short, whatever it is."""
    try:
        text = value if isinstance(value, str) else repr(_python(value))
    except Exception:  # a number of too many digits, or someone's own __repr__
        text = f"{type(value).__name__} without a text"
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


def _python(value: Any) -> Any:
    """A NumPy or torch number as Python's own."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value
