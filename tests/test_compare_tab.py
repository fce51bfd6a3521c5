"""The Compare tab without a browser: the right maps in the right places, and honest reasons."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app import compare_answers, compare_names, handlers
from app.compare_events import ask
from app.comparing import comparing
from app.comparison import CHOSEN, MOST, Asked, Comparison, check
from app.desks import Desk
from app.example_photos import FOLDER
from app.figure_panel import Wanted, width_of
from app.page import Page as ViTScope
from app.scene import Display, Request, Scene
from app.studio import Studio
from explainers import VisionModel, explain, load_photo, wrap_model
from tests.tiny import LABELS, RECTANGLE, tiny_vit

OTHERS = ("teapot", "lion, king of beasts", "espresso", "Persian cat", "tabby cat, tabby")


def refuse(name: str, report: object, download: bool) -> VisionModel:
    from explainers.models.errors import ModelError
    from explainers.sentence import Sentence

    raise ModelError(Sentence("model_not_here", "{name} is not on this machine.", name=name))


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "cache"))
    studio = Studio(refuse, "one")
    for name, module, labels in (
        ("one", tiny_vit(), LABELS),
        ("two", tiny_vit(size=RECTANGLE, seed=1), OTHERS),
        ("twin", tiny_vit(), LABELS),
        ("headless", tiny_vit(num_classes=0), None),
    ):
        studio.models.add(name, wrap_model(module, labels=labels, name=name))
    return studio


@pytest.fixture
def desk(studio: Studio) -> Desk:
    return studio.desks.of("visitor")


def asked(studio: Studio, desk: Desk, *examples: str, **changes: Any) -> Asked:
    photos = [
        str(handlers.take_photo(studio, desk, Scene(), FOLDER / f"{name}.jpg").photo)
        for name in examples or ("lion",)
    ]
    given: dict[str, Any] = {
        "scene": Scene(photo=photos[0], model="one"),
        "photos": tuple(photos),
        "models": ("one",),
        "methods": ("rollout", "relevance"),
        "classes": (CHOSEN,),
        **changes,
    }
    return Asked(**given)


def last(steps: Iterator[Comparison]) -> Comparison:
    *_, found = steps
    return found


def test_every_map_is_the_librarys(studio: Studio, desk: Desk) -> None:
    want = asked(studio, desk, "lion", "koala", models=("one", "two"), classes=("@1", "teapot"))
    found = last(comparing(studio, desk, want))
    assert len(found.cells) == want.count == 16
    for cell in found.cells:
        photo = load_photo(want.photos[cell.photo])
        vit = studio.models.ready(cell.model)
        assert vit is not None
        if cell.method == "rollout" and cell.aim == "teapot":
            assert cell.same
            assert cell.heat is None
            continue
        target = None if cell.aim == "@1" or cell.method == "rollout" else "teapot"
        expected = explain(cell.method, vit.trace(photo), target=target)
        assert cell.heat is not None
        np.testing.assert_array_equal(cell.heat.values, expected.values)  # type: ignore[union-attr]
        assert cell.heat.target == expected.target  # type: ignore[union-attr]


def test_the_class_above_is_found_by_name_in_other_models(studio: Studio, desk: Desk) -> None:
    scene = Scene(model="one", target=LABELS.index("teapot"), against=2)
    want = asked(studio, desk, models=("one", "two"), methods=("relevance",), scene=scene)
    one, two = last(comparing(studio, desk, want)).heats
    for heat in (one, two):
        assert heat.target is not None
        assert heat.against is not None
        assert (heat.target.label, heat.against.label) == ("teapot", "espresso")
    assert one.target.index != two.target.index  # type: ignore[union-attr]


def test_the_contrast_holds_for_every_row_and_every_name_says_so(
    studio: Studio, desk: Desk
) -> None:
    scene = Scene(model="one", target=LABELS.index("teapot"), against=2)
    classes = (CHOSEN, "espresso", "@1")
    want = asked(studio, desk, methods=("relevance", "rollout"), classes=classes, scene=scene)
    found = last(comparing(studio, desk, want))
    rows = {cell.aim: cell.heat for cell in found.cells if cell.method == "relevance"}
    against = {aim: heat.against and heat.against.label for aim, heat in rows.items() if heat}
    assert against == {CHOSEN: "espresso", "espresso": None, "@1": "espresso"}
    names = [name for name, _ in compare_names.choices("en", found)]
    itself = "espresso, without a contrast: it is the class held against"
    assert names[0] == "1. Relevance · teapot, not espresso"
    assert names[2] == f"3. Relevance · {itself}"
    assert names[3].endswith(", not espresso")
    table = compare_answers.table("en", found, Display(), [])
    assert len(re.findall(r"<span>maps for [^<]* %\), not espresso</span>", table)) == 2
    assert ", without a contrast: it is the class held against</span>" in table
    agreed = compare_answers.agreements("en", found, Display())
    assert "Relevance · teapot, not espresso</th>" in agreed
    assert f"They explain: teapot, not espresso; no class in particular; {itself}" in agreed


def test_the_end_counts_what_was_to_be_made(studio: Studio, desk: Desk) -> None:
    want = asked(studio, desk, classes=("lion", "teapot"))
    found = last(comparing(studio, desk, want))
    assert compare_answers.status("en", found) == (
        "<p>Maps ready: 3 of 3. Cells that repeat a map that is the same for every class: 1.</p>"
    )


def test_the_first_pair_is_one_that_can_be_subtracted(studio: Studio, desk: Desk) -> None:
    want = asked(studio, desk, classes=("lion", "teapot"))
    found = last(comparing(studio, desk, want))
    first = compare_names.first_pair(found)
    assert [found.cells[place].method for place in first] == ["relevance", "relevance"]
    assert "largest difference" in compare_answers.signed("en", found, Display(), first)


def test_refused_cells_say_why_in_their_place(studio: Studio, desk: Desk) -> None:
    want = asked(studio, desk, models=("one", "headless", "absent"), classes=("lion", "dragon"))
    found = last(comparing(studio, desk, want))
    reasons = {(c.model, c.aim, c.method): str(c.reason) for c in found.cells if c.reason}
    assert "dragon" in reasons["one", "dragon", "relevance"]
    assert "no classification head" in reasons["headless", "lion", "relevance"]
    assert reasons["absent", "lion", "rollout"].startswith("absent is not on this machine")
    html = compare_answers.table("en", found, Display(), [])
    assert html.count("<img") == len(found.heats) == 3
    assert "colspan='2'><p class='vs-refused'>absent is not" in html
    assert "No class is named" in html or "dragon" in html


def test_identical_weights_differ_by_nothing_on_the_page(studio: Studio, desk: Desk) -> None:
    want = asked(studio, desk, models=("one", "twin"), methods=("relevance",))
    found = last(comparing(studio, desk, want))
    text = compare_answers.signed("en", found, Display(), [0, 1])
    assert "the difference is exactly zero" in text
    assert "differ" not in compare_answers.pair("en", found, Display(), [0, 1]).lower()
    matrix = compare_answers.agreements("en", found, Display())
    assert re.findall(r"--v:([\d.]+)'", matrix) == ["1.000", "1.000"]


def test_two_maps_under_one_slider(studio: Studio, desk: Desk) -> None:
    want = asked(studio, desk, "lion", "koala", models=("one", "two"))
    found = last(comparing(studio, desk, want))
    first = compare_names.first_pair(found)
    assert [found.cells[place].method for place in first] == ["rollout", "rollout"]
    html = compare_answers.pair("en", found, Display(), first)
    assert html.count("<img") == 2
    assert "aria-label='Where the left map ends" in html
    assert "different photos" in compare_answers.pair("en", found, Display(), [0, 7])
    assert "Click two maps" in compare_answers.pair("en", found, Display(), [0])
    assert "different units" in compare_answers.signed("en", found, Display(), [0, 1])
    assert "coarsest" in compare_answers.agreements("en", found, Display())


def test_a_shared_scale_is_one_for_each_method(studio: Studio, desk: Desk) -> None:
    want = asked(studio, desk, models=("one", "two"), methods=("rollout", "relevance"))
    found = last(comparing(studio, desk, want))
    html = compare_answers.table("en", found, Display(extent="shared"), [])
    ends = re.findall(r"<span>([^<]+)</span></p>", html)
    assert ends[0] == ends[2]
    assert ends[1] == ends[3]
    own = re.findall(r"<span>([^<]+)</span></p>", compare_answers.table("en", found, Display(), []))
    assert own != ends


def test_the_usual_block_is_that_of_each_model(studio: Studio, desk: Desk) -> None:
    deep = wrap_model(tiny_vit(depth=6), labels=LABELS, name="deep")
    studio.models.add("deep", deep)
    given: dict[str, Any] = {"scene": Scene(model="deep"), "models": ("deep", "one")}
    for block, expected in ((5, 2), (1, 1)):
        settings = {"attention": {"block": block}}
        want = asked(studio, desk, methods=("attention",), parameters=settings, **given)
        maps = last(comparing(studio, desk, want)).heats
        assert [heat.parameters["block"] for heat in maps] == [block, expected]


def test_names_are_shown_as_text(studio: Studio, desk: Desk) -> None:
    found = last(comparing(studio, desk, asked(studio, desk, models=("<img src=x onerror=1>",))))
    assert "<img src=x" not in compare_answers.table("en", found, Display(), [])


def test_too_much_is_refused_before_anything_runs(studio: Studio, desk: Desk) -> None:
    with pytest.raises(ValueError, match="at least one photo"):
        check(asked(studio, desk, methods=()))
    names = ("attention", "rollout", "relevance", "saliency", "grad_cam", "daam", "legrad")
    many = asked(studio, desk, "lion", "koala", models=("one", "two", "twin"), methods=names)
    assert many.count > MOST
    with pytest.raises(ValueError, match="2 photos × 3 models × 1 classes × 7 methods are 42 maps"):
        check(many)


def test_cancel_keeps_what_is_made(studio: Studio, desk: Desk) -> None:
    want = asked(studio, desk, methods=("rollout", "relevance", "saliency"))
    steps = comparing(studio, desk, want)
    for found in steps:
        if found.heats:
            desk.compare_turn += 1
    kept = studio.store.get("visitor", "comparison")
    assert kept is found
    assert 1 <= len(kept.heats) < 3
    again = last(comparing(studio, desk, want))
    assert len(again.heats) == 3
    assert again.heats[0] is kept.heats[0]


def test_it_does_not_disturb_the_maps_of_explain(studio: Studio, desk: Desk) -> None:
    turn = desk.next_turn()
    last(comparing(studio, desk, asked(studio, desk)))
    assert desk.turn == turn


def test_photos_are_taken_once_and_unreadable_ones_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "cache"))
    page = ViTScope()
    desk = page.studio.desks.of("visitor")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    wish = Request(Scene(photo=None, model="one"))
    given = [[], ["rollout"], [CHOSEN], [1, 2], [str(broken)], "own"]
    first = ask(page.widgets, desk, "en", wish, given)
    assert len(first.photos) == 2
    assert first.models == ("one",)
    assert ask(page.widgets, desk, "en", wish, given).photos == first.photos


def test_the_figure_builders_fields() -> None:
    assert width_of("89/Nature") == 89
    assert isinstance(width_of("own"), dict)
    wanted = Wanted.of([None, "x", float("nan"), 600, ".exe", True, False])
    assert wanted == Wanted(89, 0, 7, 600, ".pdf", True, False)
    assert json.dumps(wanted.__dict__)
