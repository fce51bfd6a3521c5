"""Values of options as people write them: each read, or refused by argparse in a sentence."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from explainers.methods.parameters import ANY_COUNT, check_parameters
from explainers.registry import Parameter, find_method, methods

NATIVE = "native"  # the photo's own size
NOTHING = ("", "none")  # how a setting that may be empty is written


def method_name(text: str) -> str:
    """A method's name."""
    try:
        return find_method(text.strip()).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def method_names(text: str) -> tuple[str, ...]:
    """Names of methods with commas between, each once."""
    found = [method_name(part) for part in text.split(",") if part.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(methods())}, got nothing")
    return tuple(dict.fromkeys(found))


def size(text: str) -> int | tuple[int, int] | str:
    """A side of the model's input, height × width, or the photo's own size."""
    if text.strip().lower() == NATIVE:
        return NATIVE
    found = re.fullmatch(r"([1-9]\d{0,4})(?:[x×]([1-9]\d{0,4}))?", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(
            f"expected pixels (1 to 99999), as 384, height x width, as 224x448, or {NATIVE}; "
            f"got {text!r}"
        )
    height, width = found.groups()
    return int(height) if width is None else (int(height), int(width))


def place(text: str) -> Path:
    """Where to write; nothing is no place, though it would stand for the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("expected the name of a file or folder, got nothing")
    return Path(text)


def pixels(text: str) -> int:
    """A number of pixels."""
    if not re.fullmatch(r"[1-9]\d{0,4}", text):
        raise argparse.ArgumentTypeError(
            f"expected a number of pixels from 1 to 99999, as 768; got {text!r}"
        )
    return int(text)


def count(text: str) -> int:
    """How many, from 1 to 99."""
    if not re.fullmatch(r"[1-9]\d?", text):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 99, got {text!r}")
    return int(text)


def setting(text: str) -> tuple[str, str, Any]:
    """(method, setting, value); ranges that depend on the model are checked with the model."""
    found = re.fullmatch(r"\s*(\w+)\.(\w+)\s*=(.*)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"expected METHOD.SETTING=VALUE, got {text!r}")
    name, parameter, written = found.groups()
    method = find_method(method_name(name))
    declared = {known.name: known for known in method.parameters}
    value = _value(declared[parameter], written.strip()) if parameter in declared else written
    try:
        check_parameters(method, {parameter: value}, ANY_COUNT, ANY_COUNT, ANY_COUNT)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return name, parameter, value


def _value(parameter: Parameter, written: str) -> Any:
    """The text as what the setting takes; as it is where it fits none, to be refused by range."""
    if written in parameter.choices:
        return written
    if parameter.default is None and written.lower() in NOTHING:
        return None
    for kind in (int, float):
        try:
            return kind(written)
        except ValueError:
            continue
    return written
