"""The languages there are: one for each file in a folder, which says how it is called and chosen.

Under "language", a file holds: "name" and "word", how the language and the word "language" are
called in it; "codes", what browsers call it ("zh" stands for "zh-HK" too); "gradio", the name of
Gradio's own texts in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENGLISH = "en"
"""What stands in for a language, or a text, that is not there."""


@dataclass(frozen=True)
class Language:
    """What a language's file says of itself; the codes in small letters, its file's name among
    them."""

    name: str
    word: str
    codes: tuple[str, ...]
    gradio: str


def listed(folder: Path) -> dict[str, Language]:
    """The languages of a folder by the names of their files, English first."""
    found = {}
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stem != ENGLISH, path.stem)):
        said = read(folder, path.stem)["language"]
        codes = tuple(dict.fromkeys(code.lower() for code in (path.stem, *said["codes"])))
        found[path.stem] = Language(said["name"], said["word"], codes, said["gradio"])
    return found


def read(folder: Path, lang: str) -> dict[str, Any]:
    """The contents of a language's file."""
    contents: dict[str, Any] = json.loads((folder / f"{lang}.json").read_text(encoding="utf-8"))
    return contents


def chosen(languages: Mapping[str, Language], code: str) -> str:
    """The language that answers to most of a browser's code: "zh_HK" → "zh", if there is no
    "zh-HK"; English to any other. `app.page_language` does the same in the browser."""
    asked = code.replace("_", "-").lower() + "-"
    answering = [
        (len(own), lang)
        for lang, language in languages.items()
        for own in language.codes
        if asked.startswith(f"{own}-")
    ]
    return max(answering)[1] if answering else ENGLISH
