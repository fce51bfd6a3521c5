"""The page's languages: nothing missing, nothing left over, every value in its place."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import gradio as gr
import pytest

from app.errors import explain_error, guard
from app.texts import LANGUAGES, browser_texts, language, of_method, of_parameter, say, tell, texts
from explainers import PhotoError, methods
from explainers.models.catalogue import CATALOGUE
from explainers.sentence import Sentence

ROOT = Path(__file__).resolve().parent.parent
TOASTS = {"gr.Error", "gr.Warning", "gr.Info", "gr.Success"}
OTHERS = [code for code in LANGUAGES if code != "en"]
PAGE_CALL = re.compile(r"""\b(?:say|t)\((?:[\w.]*lang, |"en", )?(f?)(["'])([\w{}.]+)\2""")


def fields(template: str) -> set[str]:
    """The names of a template's values, whatever their format."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def _sources() -> list[Path]:
    """What the page may say: all but the command line, which speaks English."""
    own = ROOT / "explainers"
    library = [p for p in own.rglob("*.py") if "command" not in p.relative_to(own).parts[0]]
    return [*library, *(ROOT / "app").rglob("*.py")]


def sentences() -> dict[str, str]:
    """key → English template of every sentence written in explainers/ and app/."""
    found = {}
    for path in _sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Sentence":
                continue
            try:
                key, template = (ast.literal_eval(part) for part in node.args[:2])
            except (ValueError, TypeError):
                continue  # made from a table, see the test of the catalogue
            found[key] = template
    return found | {entry.description.key: str(entry.description) for entry in CATALOGUE}


@pytest.mark.parametrize("lang", OTHERS)
def test_page_has_the_same_texts_in_every_language(lang: str) -> None:
    english, other = texts("en"), texts(lang)
    for table in ("page", "figures"):
        assert english[table].keys() == other[table].keys()
        for key, template in english[table].items():
            assert fields(template) == fields(other[table][key]), key


@pytest.mark.parametrize("lang", OTHERS)
def test_every_sentence_of_the_library_is_translated(lang: str) -> None:
    english, other = sentences(), texts(lang)["sentences"]
    assert len(english) > 100
    assert english.keys() == other.keys()
    for key, template in english.items():
        assert fields(template) == fields(other[key]), key


@pytest.mark.parametrize("lang", OTHERS)
@pytest.mark.parametrize("name", methods())
def test_every_method_is_translated(lang: str, name: str) -> None:
    method, table = methods()[name], texts(lang)["methods"][name]
    assert {*table} == {"title", "meaning", "limits", "parameters"}
    assert {*table["parameters"]} == {parameter.name for parameter in method.parameters}
    assert of_method(lang, method, "meaning") == table["meaning"] != method.meaning
    assert of_method("en", method, "title") == method.title
    for parameter in method.parameters:
        assert of_parameter(lang, method, parameter) != parameter.meaning


def test_texts_of_the_page_are_used_and_present() -> None:
    source = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "app").rglob("*.py"))
    called = PAGE_CALL.findall(source)
    known = {*texts("en")["page"]}
    assert {key for made, _, key in called if not made} - known - {"a", "lang"} == set()
    made = [re.compile(re.sub(r"{[^}]*}", "[a-z0-9_]+", key)) for made, _, key in called if made]
    chosen = re.compile("(choice|baseline|model_facts)_.*")  # keys put together elsewhere
    for key in known:
        quoted = f'"{key}"' in source or f"'{key}'" in source
        assert quoted or any(pattern.fullmatch(key) for pattern in [chosen, *made]), key


@pytest.mark.parametrize(
    ("code", "expected"),
    [("zh", "zh"), ("zh-HK", "zh"), ("zh_TW", "zh"), ("en-GB", "en"), ("fr", "en"), (None, "en")],
)
def test_language_of_a_browser(code: str | None, expected: str) -> None:
    assert language(code) == expected


def test_a_toast_shows_markup_and_a_program_gets_the_plain_text() -> None:
    def refuse(lang: str) -> None:
        raise ValueError(Sentence("x", "no {name}, 'so' & on", name="<img src=x>"))

    for handler, told in (
        (guard(refuse), "no &lt;img src=x&gt;, 'so' &amp; on"),
        (guard(refuse, explain_error), "no <img src=x>, 'so' & on"),
    ):
        with pytest.raises(gr.Error) as caught:
            handler("en")
        assert caught.value.message == told


def test_no_toast_is_made_of_unescaped_text() -> None:
    for path in (ROOT / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in TOASTS:
                text = ast.unparse(node.args[0])
                assert re.match(r"(toast|escape|words|say)\(", text), f"{path.name}: {text}"


def test_values_that_are_sentences_are_translated_too() -> None:
    region = Sentence("region_centre", "centre")
    sentence = Sentence(
        "alt_strongest",
        "{title}: strongest at the {region}, {share} % of the total in 11 % of the photo"
        "{prefix}{unseen}.",
        title="X",
        region=region,
        share="40",
        prefix="",
        unseen="",
    )
    assert "中央" in tell("zh", sentence)
    assert "centre" not in tell("zh", sentence)
    assert tell("en", sentence) == str(sentence)


def test_a_path_is_told_by_its_name_only() -> None:
    sentence = Sentence("weights_no_file", "There is no weights file {path}.", path="/secret/a.bin")
    for lang in LANGUAGES:
        assert "a.bin" in tell(lang, sentence)
        assert "secret" not in tell(lang, sentence)


def test_browser_gets_titles_and_costs() -> None:
    tables = browser_texts(methods()).translations_dict
    assert tables["zh"]["method.rollout"] == texts("zh")["methods"]["rollout"]["title"]
    assert tables["en"]["tick.occlusion"] == "Occlusion · 197 passes"
    assert tables["en"]["tick.rollout"] == methods()["rollout"].title


def test_known_errors_become_one_sentence_in_the_visitors_language() -> None:
    def fail(lang: str) -> None:
        raise PhotoError(Sentence("photo_empty", "The file {name} is empty; …", name="a.jpg"))

    with pytest.raises(Exception, match=r"文件 a\.jpg 是空的") as caught:
        guard(fail)("zh")
    assert caught.value.title == say("zh", "error_title")


@pytest.mark.parametrize("streams", [False, True])
def test_unknown_errors_are_logged_and_say_nothing(
    streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(lang: str) -> None:
        raise OSError("/secret/folder is full")

    def stream(lang: str):  # type: ignore[no-untyped-def]
        yield 1
        fail(lang)

    with pytest.raises(Exception, match="logged") as caught:
        list(guard(stream)("en")) if streams else guard(fail)("en")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "/secret/folder" in caplog.text
