"""The page in a browser: a photo is given, classes are clicked, and what comes back is right."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from app.example_photos import FOLDER
from explainers import explain, load_photo, methods
from explainers.render.npz import read_npz
from tests.browser_page import (
    LION,
    PATIENCE,
    QUICK,
    Server,
    card,
    choose,
    classes,
    download,
    give,
    name_model,
    opened,
    ready,
    server,
    source,
    visit,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


def toast(page: Page) -> str:
    box = page.locator(".toast-body").first
    box.wait_for()
    return box.inner_text()


def test_a_photo_gives_label_probabilities_and_four_maps(opened: Page, tmp_path: Path) -> None:
    page = opened
    give(page)
    ready(page)
    assert classes(page)[0] == "lion"
    assert re.search(r"9\d\.\d\s*%", page.locator("#vs-top").inner_text())
    for name in QUICK:
        picture = card(page, name).locator(".vs-map img")
        assert picture.get_attribute("alt")
        assert urlsplit(source(page, name)).path.endswith(".png")
    path = download(page, card(page, "rollout").get_by_role("button", name="PNG"), tmp_path)
    assert path.name == "lion-rollout.png"
    with Image.open(path) as saved, Image.open(LION) as photo:
        assert saved.width == photo.width
        assert saved.height > photo.height  # title and colour bar
        assert "rollout" in saved.info["provenance"]
    page.get_by_label("with title and colour bar").uncheck()
    path = download(page, card(page, "rollout").get_by_role("button", name="PNG"), tmp_path)
    with Image.open(path) as saved, Image.open(LION) as photo:
        assert saved.size == photo.size


def test_how_far_to_trust_a_map_follows_it(opened: Page) -> None:
    page = opened
    give(page)
    ready(page)
    for name in QUICK:
        card(page, name).locator(".vs-measured").wait_for()
    line = card(page, "relevance").locator(".vs-measured").inner_text()
    assert re.search(r"top 19 % .* lion .* random order: 0\.\d\d", line)
    page.get_by_text(re.compile(r"Occlusion · \d+ (s|min)")).wait_for()
    page.get_by_text("All quick methods at a glance").click()
    page.locator("#vs-glance button[data-name=patch_similarity] img").wait_for()
    page.locator("#vs-glance button[data-name=patch_similarity]").click()
    ready(page, 5)
    assert page.get_by_label("Patch similarity").is_checked()
    map_ = card(page, "patch_similarity")
    map_.get_by_text("row 8, column 8 of 14×14").wait_for()
    map_.scroll_into_view_if_needed()
    page.wait_for_function(
        "() => document.querySelector('#vs-card-patch_similarity .vs-map img').naturalWidth > 0"
    )
    box = map_.locator(".vs-map img").bounding_box()
    assert box is not None
    near_the_corner = {"x": box["width"] / 28, "y": box["height"] * 27 / 28}
    map_.locator(".vs-map img").click(position=near_the_corner)
    map_.get_by_text("row 14, column 1 of 14×14").wait_for()
    test = card(page, "rollout")
    test.get_by_text("Put this map to the test").click()
    test.get_by_role("button", name="Test class and weights").click()
    test.locator(".vs-curve svg").wait_for(timeout=4 * PATIENCE)
    verdict = test.locator(".vs-checked")
    verdict.wait_for(timeout=4 * PATIENCE)
    assert "does not depend on the class" in verdict.inner_text()


def test_another_class_changes_the_maps_that_depend_on_it(opened: Page) -> None:
    page = opened
    give(page)
    ready(page)
    before = {name: source(page, name) for name in QUICK}
    page.locator("#vs-top button").nth(2).click()
    third = classes(page)[2]
    card(page, "relevance").get_by_text(f"For the class {third}").wait_for()
    ready(page)
    after = {name: source(page, name) for name in QUICK}
    for name in QUICK:
        assert (before[name] != after[name]) is methods()[name].class_specific
    choose(page, "#vs-target", "goldfish")
    card(page, "relevance").get_by_text("For the class goldfish").wait_for()
    choose(page, "#vs-against", "lion")
    card(page, "relevance").get_by_text(re.compile("For goldfish .*against lion ")).wait_for()


def test_drawing_and_ticking_a_cheap_method_run_no_model(
    opened: Page, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened
    page.get_by_label("Attention rollout").uncheck()
    give(page)
    ready(page, 3)

    def run(*_: Any) -> Any:
        raise AssertionError("the model ran again")

    monkeypatch.setattr("explainers.models.vision_model.VisionModel.logits", run)
    page.get_by_label("Attention rollout").check()
    ready(page, 4)
    for style in ("Map alone", "On the photo"):
        before = source(page, "rollout")
        page.get_by_label(style).check()
        page.wait_for_function(
            "old => document.querySelector('#vs-card-rollout .vs-map img')"
            ".getAttribute('src') !== old",
            arg=before,
        )
    slider = page.locator(".vs-options input[type=range]").first
    slider.focus()
    slider.press("ArrowRight")
    page.get_by_label("Contours").check()
    page.wait_for_timeout(800)
    ready(page, 4)


def test_two_visitors_two_models_two_classes_at_once(
    server: Server, browser: Browser, tmp_path: Path
) -> None:
    koala = FOLDER / "koala.jpg"
    contexts = [browser.new_context(locale="en-US") for _ in range(2)]
    first, second = (visit(server, context.new_page()) for context in contexts)
    name_model(second, "small-one")
    second.get_by_text("5 classes").wait_for()
    give(first)
    give(second, koala)
    ready(first)
    ready(second)
    choose(first, "#vs-target", "goldfish")
    choose(second, "#vs-target", "espresso")
    card(first, "relevance").get_by_text("For the class goldfish").wait_for()
    card(second, "relevance").get_by_text("For the class espresso").wait_for()
    ready(first)
    ready(second)
    for page, photo, model, target in (
        (first, LION, "embedded", "goldfish"),
        (second, koala, "small-one", "espresso"),
    ):
        folder = tmp_path / model
        folder.mkdir()
        contents = read_npz(download(page, page.locator("#vs-save-all"), folder))
        vit = server.page.studio.models.ready(model)
        assert vit is not None
        trace = vit.trace(load_photo(photo))
        for name in QUICK:
            chosen = target if methods()[name].class_specific else None
            expected = explain(name, trace, target=chosen)
            assert np.array_equal(contents[name], expected.values), (model, name)
            assert contents["provenance"][name]["model"] == vit.name
    for context in contexts:
        context.close()


def test_cancel_ends_the_work_and_keeps_what_is_there(opened: Page) -> None:
    """That it takes less than a second is shown without a browser, in test_page_visitors.py."""
    page = opened
    give(page)
    ready(page)
    page.get_by_label("SmoothGrad").check()
    card(page, "smoothgrad").locator("[role=progressbar]").wait_for()
    page.locator("#vs-cancel").click()
    page.locator("#vs-status").get_by_text("Cancelled").wait_for()
    assert card(page, "smoothgrad").get_by_text("Cancelled").is_visible()
    assert source(page, "rollout")
    page.locator("#vs-go").click()
    ready(page, 5)


def test_a_bad_file_is_said_in_one_sentence_and_changes_nothing(
    opened: Page, tmp_path: Path
) -> None:
    page = opened
    give(page)
    ready(page)
    before = {name: source(page, name) for name in QUICK}
    bad = tmp_path / "holiday.png"
    bad.write_text("this is no photo at all")
    give(page, bad)
    said = toast(page)
    assert "holiday.png" in said
    assert "Traceback" not in said
    assert "/" not in said
    page.wait_for_timeout(500)
    assert {name: source(page, name) for name in QUICK} == before
    assert "lion" in (page.locator("#vs-photo img").get_attribute("src") or "")
    assert classes(page)[0] == "lion"


def test_an_unknown_model_is_refused_and_the_old_one_kept(opened: Page) -> None:
    page = opened
    give(page)
    ready(page)
    name_model(page, "vit_bas_patch16_224")
    assert "vit_base_patch16_224" in toast(page)  # the nearest names
    page.wait_for_timeout(500)
    assert page.locator("#vs-model input").input_value().endswith("embedded")
    name_model(page, "../weights.safetensors")
    page.get_by_text("takes the names of models, not files").first.wait_for()
    assert source(page, "rollout")


def test_a_model_that_is_not_here_is_offered_for_download(
    opened: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody answers there
    page = opened
    name = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
    name_model(page, name)
    offer = page.get_by_role("button", name=f"Download {name} (23 MB)")
    offer.click()
    assert "cannot be reached" in toast(page)
    page.wait_for_function(
        "() => document.querySelector('#vs-model input').value.endsWith('embedded')"
    )
    give(page)
    ready(page)
