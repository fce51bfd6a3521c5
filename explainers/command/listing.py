"""`models` and `methods`: what there is to choose from, written from the declarations."""

from __future__ import annotations

import argparse
import shutil
import textwrap

from explainers.command.cards import QUESTIONS, allowed, markdown, traits, written
from explainers.command.terminal import Exit, say
from explainers.models.catalogue import CATALOGUE, PREFERRED
from explainers.registry import Method, find_method, methods

STATES = {
    "embedded": "comes with ViTScope",
    "cached": "on this machine",
    "download": "to download",
}
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
    """All methods by the question they answer, or the card of one, or all cards."""
    if options.markdown:
        say(markdown().rstrip())
        return Exit.DONE
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
            _indented(traits(method))
    say()
    say("python -m explainers methods NAME shows settings, limits and paper.")
    return Exit.DONE


def _card(method: Method) -> None:
    say(f"{method.title} ({method.name})")
    say(f"Question: {QUESTIONS[method.question]}")
    _indented(method.meaning)
    _indented(traits(method))
    say("Limits:")
    _indented(method.limits)
    say("Settings:" if method.parameters else "Settings: none")
    for parameter in method.parameters:
        say(f"  --set {method.name}.{parameter.name}={written(parameter.default)}")
        _indented(f"{parameter.meaning} {allowed(parameter)}")
    say("Paper:")
    _indented(method.paper)
    say(method.bibtex)


def _indented(text: str) -> None:
    width = min(WIDEST, shutil.get_terminal_size().columns)
    for line in textwrap.wrap(text, max(40, width - 6), break_on_hyphens=False):
        say(f"      {line}")
