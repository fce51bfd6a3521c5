"""A third language is one file more: listed, chosen by its browsers, English where text lacks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import app.texts
from app.chart_words import chart_words
from app.texts import browser_texts, language, say, tell, texts, told
from app.texts.languages import Language, chosen, listed
from explainers import methods
from explainers.sentence import Sentence
from tests.test_page_start import answer, free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
GERMAN = {
    "language": {"name": "Deutsch", "word": "Sprache", "codes": ["de"], "gradio": "de"},
    "page": {"tab_inside": "Im Modell"},
    "figures": {"chart_row": "Zeile der Eingabe"},
}


def add_german(folder: Path) -> None:
    (folder / "de.json").write_text(json.dumps(GERMAN), encoding="utf-8")


@pytest.fixture
def german(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's own files and one more."""
    for path in app.texts.FOLDER.glob("*.json"):
        shutil.copy(path, tmp_path)
    add_german(tmp_path)
    monkeypatch.setattr(app.texts, "FOLDER", tmp_path)
    monkeypatch.setattr(app.texts, "LANGUAGES", listed(tmp_path))
    texts.cache_clear()
    told.cache_clear()
    yield
    texts.cache_clear()
    told.cache_clear()


@pytest.mark.usefixtures("german")
def test_a_file_more_is_a_language_more() -> None:
    assert [*app.texts.LANGUAGES] == ["en", "de", "zh"]
    assert app.texts.LANGUAGES["de"] == Language("Deutsch", "Sprache", ("de",), "de")
    assert [language(code) for code in ("de", "de-AT", "DE_ch", "den", "fr")] == [
        *("de", "de", "de", "en", "en")
    ]
    assert say("de-AT", "tab_inside") == "Im Modell"
    assert browser_texts(methods()).translations_dict["de"]["tab_inside"] == "Im Modell"
    assert chart_words("de")["chart_row"] == "Zeile der Eingabe"


@pytest.mark.usefixtures("german")
def test_what_it_lacks_is_said_in_english() -> None:
    assert say("de", "tab_compare") == say("en", "tab_compare")
    table, english = (browser_texts(methods()).translations_dict[code] for code in ("de", "en"))
    assert table.keys() == english.keys()
    assert table["method.rollout"] == methods()["rollout"].title
    assert chart_words("de")["chart_pixels"] == chart_words("en")["chart_pixels"]
    assert tell("de", Sentence("photo_empty", "The file {name} is empty.", name="a")) == (
        "The file a is empty."
    )


@pytest.mark.parametrize(
    ("code", "lang"),
    [("zh", "zh"), ("zh-CN", "zh"), ("zh-TW", "zh-Hant"), ("zh-hk", "zh"), ("x", "en"), ("", "en")],
)
def test_the_longest_code_answers(code: str, lang: str) -> None:
    known = {
        "en": Language("English", "Language", ("en",), "en"),
        "zh-Hant": Language("繁體中文", "語言", ("zh-hant", "zh-tw"), "zh-TW"),
        "zh": Language("中文", "语言", ("zh",), "zh-CN"),
    }
    assert chosen(known, code) == lang


@pytest.mark.browser
@pytest.mark.long
def test_the_page_speaks_it(browser: Browser, tmp_path: Path) -> None:
    """The page with one file more and nothing else changed, in a process of its own."""
    shutil.copytree(ROOT / "app", tmp_path / "app")
    shutil.copy(ROOT / "app.py", tmp_path)
    add_german(tmp_path / "app" / "texts")
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        [sys.executable, "app.py", "--port", str(port)], cwd=tmp_path, env=environment
    )
    try:
        address = f"http://127.0.0.1:{port}/"
        answer(address, process)
        for locale, tab in (
            *(("de-CH", "Im Modell"), ("zh-CN", "模型内部"), ("zh-TW", "模型内部")),
            *(("zh-HK", "模型内部"), ("zh", "模型内部"), ("fr-FR", "Inside the model")),
        ):
            context = browser.new_context(locale=locale)
            page: Any = context.new_page()
            page.goto(address)
            page.get_by_role("tab", name=tab).wait_for()
            if locale == "de-CH":
                page.get_by_role("tab", name="Compare").wait_for()
                page.locator("#vs-lang input").click()
                names = page.get_by_role("option").all_inner_texts()
                assert [name.strip("✓ \n") for name in names] == ["English", "Deutsch", "中文"]
            context.close()
    finally:
        process.terminate()
        process.wait()
