"""Cards of maps on the page: pictures, words and figures, in either language, for any request."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from app.page import Page
from app.scene import Display, Request, Scene
from app.studio import Studio
from explainers import wrap_model
from tests.small_page import QUICK, ask, merged, page, photo_file, shown, slow, studio
from tests.tiny import tiny_photo_array, tiny_vit


def test_cards_show_picture_words_and_figures(page: Page, studio: Studio, photo_file: Path) -> None:
    request = ask(photo_file, (*QUICK, "integrated_gradients"), target=3)
    state = merged(shown(page, studio, request))
    assert {*state} <= {*page.widgets.shown}
    tab, chooser = page.widgets.tab, page.widgets.chooser
    for name, card in tab.cards.items():
        assert state[card.box]["visible"] is (name in request.methods)
    rollout, saliency = tab.cards["rollout"], tab.cards["saliency"]
    assert Path(state[rollout.image]["value"]).suffix == ".png"
    assert Image.open(state[rollout.image]["value"]).width == 800
    assert "Attention rollout" in state[rollout.image]["alt_text"]
    assert "same for every class" in state[rollout.text]
    assert "tokens that are no part of the photo" in state[rollout.text]
    assert "For the class lion" in state[saliency.text]
    completeness = tab.cards["integrated_gradients"]
    assert "Completeness" in state[completeness.text]
    assert state[completeness.baseline_box]["visible"] is True
    assert "hatched" in state[rollout.text]  # the photo is wider than the model's square
    assert state[chooser.target]["value"] == 3
    assert state[chooser.top]["value"].count("<button") == 5
    assert state[tab.save_all]["interactive"] is True
    assert state[tab.cancel].get("interactive", False) is False


def test_cards_speak_chinese(page: Page, studio: Studio, photo_file: Path) -> None:
    state = merged(shown(page, studio, ask(photo_file, ("rollout",)), "zh"))
    card = page.widgets.tab.cards["rollout"]
    assert "对所有类别都一样" in state[card.text]
    assert state[card.image]["alt_text"].startswith("注意力展开")
    assert "strongest" not in state[card.image]["alt_text"]


def test_labels_from_a_file_cannot_write_html(page: Page, studio: Studio, tmp_path: Path) -> None:
    labels = ["<img src=x onerror=alert(1)>"] * 5
    studio.models.add("evil", wrap_model(tiny_vit(), labels=labels))
    path = tmp_path / "<b>.png"
    Image.fromarray(tiny_photo_array()).save(path)
    state = merged(shown(page, studio, ask(path, model="evil")))
    card = page.widgets.tab.cards["saliency"]
    assert "&lt;img" in state[card.text]
    assert "<img" not in state[card.text]
    listed = state[page.widgets.chooser.top]["value"]
    assert listed.count("<button") == 5  # equal names are told apart
    assert "<img" not in listed


def test_no_photo_and_no_method_are_told_what_to_do(
    page: Page, studio: Studio, photo_file: Path
) -> None:
    hint = page.widgets.tab.hint
    nothing = merged(shown(page, studio, Request(Scene(), QUICK)))
    assert nothing[hint]["visible"] is True
    assert "Choose a photo" in nothing[hint]["value"]
    unticked = merged(shown(page, studio, ask(photo_file, ())))
    assert "Tick a method" in unticked[hint]["value"]
    assert merged(shown(page, studio, ask(photo_file)))[hint]["visible"] is False


def test_a_shared_scale_and_contours_are_drawn(
    page: Page, studio: Studio, photo_file: Path
) -> None:
    cards = page.widgets.tab.cards
    pictures = {}
    for display in (
        Display(),
        Display(extent="shared"),
        Display(style="contour"),
        Display(smooth=True),
    ):
        request = Request(ask(photo_file).scene, QUICK, display=display)
        state = merged(shown(page, studio, request))
        pictures[display] = [state[cards[name].image]["value"] for name in QUICK]
    assert len({tuple(paths) for paths in pictures.values()}) == 4


def test_cancelled_cards_are_emptied(
    page: Page, studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.05)
    state: dict[Any, Any] = {}
    card = page.widgets.tab.cards["smoothgrad"]
    for step in shown(page, studio, ask(photo_file, ("rollout", "smoothgrad"))):
        if card.text in step and "progressbar" in str(step[card.text]):
            studio.desks.of("a").stop()
        state |= merged(iter([step]))
    assert state[card.image]["value"] is None
    assert "Cancelled" in state[card.text]
    assert "Cancelled" in state[page.widgets.tab.status]


def test_inside_the_model_or_the_reason(page: Page, studio: Studio) -> None:
    from app import inside_tab

    vit = studio.models.ready("one")
    assert vit is not None
    updates = inside_tab.show("en", vit, 3)
    assert len(updates) == len(page.widgets.inside.outputs())
    for picture, text in zip(updates[::2], updates[1::2], strict=True):
        assert picture["visible"] is True
        assert picture["alt_text"]
        assert text.startswith("<p>")
    assert "The 3 strongest components of the 16 filters" in updates[3]
