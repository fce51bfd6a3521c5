"""`models` and `methods`: what there is to choose from, written from the declarations."""

from __future__ import annotations

import argparse
import shutil
import textwrap

from explainers.command.terminal import Exit, say
from explainers.models.catalogue import CATALOGUE, PREFERRED
from explainers.registry import Method, Parameter, Question, find_method, methods

QUESTIONS: dict[Question, str] = {
    "look": "Where did it look?",
    "counted": "What counted for this class?",
    "without": "What happens without it?",
    "sees": "What does it see?",
}
STATES = {
    "embedded": "comes with ViTScope",
    "cached": "on this machine",
    "download": "to download",
}
PATCHES = 196
"""Patches that costs are given for: a 14×14 grid, that of the usual ViT."""

WIDEST = 100


def list_models(options: argparse.Namespace) -> Exit:
    """The catalogue, or what of it has a text in its name or description."""
    wanted = options.search.casefold()
    entries = [
        entry
        for entry in CATALOGUE
        if wanted in entry.name.casefold() or wanted in entry.description.casefold()
    ]
    for entry in entries:
        auto = "; what auto takes" if entry.name == PREFERRED else ""
        say(f"{entry.name}")
        _indented(f"{entry.megabytes:,.0f} MB, {STATES[entry.state()]}{auto}")
        _indented(entry.description)
    if not entries:
        say(f"Nothing in the list has {options.search!r} in it.")
    say()
    say("Any other ViT of timm can be named too, and hf-hub:OWNER/MODEL.")
    return Exit.DONE if entries else Exit.NOTHING


def list_methods(options: argparse.Namespace) -> Exit:
    """All methods by the question they answer, or the card of one."""
    if options.name:
        _card(find_method(options.name))
        return Exit.DONE
    for question, text in QUESTIONS.items():
        group = [method for method in methods().values() if method.question == question]
        if group:
            say(text)
        for method in group:
            say(f"  {method.name}")
            _indented(method.meaning)
            _indented(_traits(method))
    say()
    say("python -m explainers methods NAME shows settings, limits and paper.")
    return Exit.DONE


def _card(method: Method) -> None:
    say(f"{method.title} ({method.name})")
    say(f"Question: {QUESTIONS[method.question]}")
    _indented(method.meaning)
    _indented(_traits(method))
    say("Limits:")
    _indented(method.limits)
    say("Settings:" if method.parameters else "Settings: none")
    for parameter in method.parameters:
        say(f"  --set {method.name}.{parameter.name}={_written(parameter.default)}")
        _indented(f"{parameter.meaning} {_range(parameter)}")
    say("Paper:")
    _indented(method.paper)
    say(method.bibtex)


def _traits(method: Method) -> str:
    depends = "depends on the class" if method.class_specific else "the same for every class"
    signed = "for and against" if method.signed else "never negative"
    return f"{depends}; {signed}; {_cost(method)}"


def _cost(method: Method) -> str:
    """What a map costs beyond the one pass that answers, at default settings."""
    passes = method.cost(method.defaults, PATCHES)
    if not passes:
        return "costs nothing more once the photo is traced"
    shared = ", shared by all gradient methods" if method.needs_gradients and passes == 3 else ""
    return f"costs about {passes:,.0f} forward passes{shared}"


def _range(parameter: Parameter) -> str:
    """The values a setting takes."""
    listed = ", ".join(parameter.choices)
    if parameter.kind == "choice":
        return f"One of: {listed}."
    if parameter.kind == "token":
        return "A token's number, or none."
    if parameter.kind in ("block", "head"):
        return f"A {parameter.kind}'s number, from 0" + (f", or: {listed}." if listed else ".")
    whole = "A whole number" if parameter.kind == "integer" else "A number"
    return f"{whole} from {parameter.low:g} to {parameter.high:g}."


def _written(value: object) -> str:
    return "none" if value is None else str(value)


def _indented(text: str) -> None:
    width = min(WIDEST, shutil.get_terminal_size().columns)
    for line in textwrap.wrap(text, max(40, width - 6)):
        say(f"      {line}")
