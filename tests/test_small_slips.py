"""Slips that a shell or a hand makes: each is answered in one sentence about what was given."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from app.anatomy_events import known
from app.files import adopt
from app.link_events import found_in
from app.link_reading import from_query, read
from app.page import Page
from app.restoring import MOST, told
from app.scene import Scene
from app.studio import Studio
from explainers import PhotoError, load_photo, wrap_model
from explainers.__main__ import main
from tests.small_page import ask, merged, page, photo_file, shown, studio
from tests.tiny import tiny_photo_array, tiny_vit

EXAMPLE = "app/examples/lion.jpg"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["explain", ""], "There is no photo or folder ''; check the name."),
        (["explain", EXAMPLE, "--out", ""], "expected the name of a file or folder, got nothing"),
        (
            ["explain", EXAMPLE, "--long-side", "100000"],
            "a number of pixels from 1 to 99999, as 768",
        ),
        (["replay", "nowhere.txt", "--photo", EXAMPLE], "nowhere.txt cannot be read (No such file"),
    ],
)
def test_an_unset_variable_or_a_wrong_name(given: list[str], said: str, capsys: Any) -> None:
    try:
        code = main(given)
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    error = capsys.readouterr().err
    assert code == 2
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_a_folder_in_an_uploads_place(tmp_path: Path) -> None:
    with pytest.raises(PhotoError, match="is no longer here; upload it again"):
        adopt(tmp_path, tmp_path / "desk")


def test_weights_that_are_no_numbers() -> None:
    module = tiny_vit()
    with torch.no_grad():
        module.blocks[1].attn.qkv.weight.fill_(torch.nan)
    vit = wrap_model(module)
    support = vit.supports("rollout")
    assert not support
    assert "not finite (NaN); check its weights" in str(support.reason)
    vit.trace(load_photo(tiny_photo_array()))


def test_empty_values_in_a_link_say_nothing() -> None:
    view, problems = read(from_query({"target": "", "look": "", "photo": "", "methods": ""}))
    assert problems == []
    assert (view.target, view.photo, view.methods) == (None, None, ())


def test_methods_that_are_all_unknown_leave_the_ticks_as_they_are() -> None:
    view, problems = read(from_query({"methods": "nope"}))
    assert (view.methods, len(problems)) == (None, 1)


def test_a_thousand_wrong_names_are_a_few_sentences_and_a_count() -> None:
    _, problems = read({"methods": [f"m{n}" for n in range(1000)]})
    lines = told("en", problems)
    assert len(lines) == MOST + 1
    assert lines[-1] == f"{1000 - MOST} more values cannot be had here and are left out."


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ({"vitscope_view": 99, "photo": "lion"}, "saved by another version of ViTScope"),
        ({"vitscope_view": 1, "photo": None}, "holds no photo; choose the photo above"),
    ],
)
def test_a_views_file_is_remarked_on(tmp_path: Path, contents: dict[str, Any], said: str) -> None:
    path = tmp_path / "view.json"
    path.write_text(json.dumps(contents), encoding="utf-8")
    _, problems = found_in(path)
    assert len(problems) == 1
    assert said in str(problems[0])


def test_a_class_held_against_itself_on_the_page(
    page: Page, studio: Studio, photo_file: Path
) -> None:
    for against, said in ((3, "The contrast is the explained class itself"), (1, "")):
        state = merged(shown(page, studio, ask(photo_file, (), target=3, against=against)))
        note = state[page.widgets.chooser.class_note]
        assert said in note
        assert bool(said) == bool(note)


def test_a_photo_that_has_been_deleted_meanwhile_has_no_anatomy(studio: Studio) -> None:
    scene = Scene(photo="gone.jpg", model="one")
    assert known(studio, studio.desks.of("a"), scene) is None
