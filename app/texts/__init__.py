"""What the page says, in each language: one JSON file a language, found by itself.

`en.json` holds the page's own texts; the library's sentences, method titles and meanings are
English in the library itself. The other files hold both, found by key and by method name; what
one lacks is said in English.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr

from app.texts.languages import ENGLISH, chosen, listed, read
from explainers.registry import Method, Parameter
from explainers.sentence import Sentence

FOLDER = Path(__file__).parent

LANGUAGES = listed(FOLDER)
"""A file's name → what the language says of itself, in the order of the switch."""

PATCHES = 196
"""Patches of the usual photo, for judging what a method costs."""

FREE = 3
"""Forward passes up to which a method's map is there at once, so that no cost is told."""


@cache
def texts(lang: str) -> dict[str, Any]:
    """The contents of one language's file."""
    return read(FOLDER, lang)


@cache
def told(lang: str, part: str) -> Mapping[str, str]:
    """The texts of one part, "page" or "figures", each in English where the file lacks it."""
    return {**texts(ENGLISH)[part], **texts(lang).get(part, {})}


def language(code: object) -> str:
    """The language for a browser's or a visitor's code: "zh-HK" → "zh", anything odd → "en"."""
    return chosen(LANGUAGES, str(code or ""))


def say(lang: str, key: str, **values: object) -> str:
    """A text of the page in ``lang`` with its values filled in."""
    template: str = told(language(lang), "page")[key]
    return template.format(**values) if values else template


def tell(lang: str, sentence: str) -> str:
    """A sentence of the library in ``lang``; plain strings stay as they are.

    Values that are sentences themselves (a region of the photo) are translated too. A path is
    told by its last part only.
    """
    if not isinstance(sentence, Sentence):
        return str(sentence)
    values = {
        name: tell(lang, value) if isinstance(value, str) else value
        for name, value in sentence.values.items()
    }
    place = str(values.get("path", ""))
    if place:  # which file it is, not where this machine keeps it
        values["path"] = Path(place).name
    template = texts(language(lang)).get("sentences", {}).get(sentence.key)
    if template is None:
        return sentence.replace(place, str(values["path"])) if place else str(sentence)
    return str(template.format(**values))


def of_method(lang: str, method: Method, part: str) -> str:
    """A method's "title", "meaning" or "limits" in ``lang``."""
    table = texts(language(lang)).get("methods", {}).get(method.name, {})
    return table.get(part) or str(getattr(method, part))


def of_parameter(lang: str, method: Method, parameter: Parameter) -> str:
    """What a parameter of a method means, in ``lang``."""
    table = texts(language(lang)).get("methods", {}).get(method.name, {})
    return table.get("parameters", {}).get(parameter.name) or parameter.meaning


def browser_texts(methods: Mapping[str, Method]) -> gr.I18n:
    """The texts that Gradio translates in the browser: labels, choices and headings.

    Besides the page's own texts: ``method.NAME`` for a title, ``tick.NAME`` for the title with
    its cost where the method takes long, ``parameter.NAME.PARAMETER`` for a meaning.
    """
    tables = {}
    for lang in LANGUAGES:
        table = dict(told(lang, "page"))
        for method in methods.values():
            title = of_method(lang, method, "title")
            table[f"method.{method.name}"] = title
            cost = method.cost(method.defaults, PATCHES)
            costing = table["tick_passes"].format(passes=f"{cost:.0f}")
            table[f"tick.{method.name}"] = f"{title} · {costing}" if cost > FREE else title
            for parameter in method.parameters:
                key = f"parameter.{method.name}.{parameter.name}"
                table[key] = of_parameter(lang, method, parameter)
        tables[lang] = table
    return gr.I18n(**tables)
