"""The Compare tab and the figure builder in a browser: every control used, files opened again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.example_photos import FOLDER
from app.page import Page as ViTScope
from explainers import load_photo, wrap_model
from explainers.recipe import open_recipe
from explainers.render.npz import npz_bytes, read_npz
from explainers.replay import replay
from tests.tiny import LABELS, RECTANGLE, tiny_vit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.long]
PATIENCE = 150_000
"""Milliseconds; generous, because the machine may be busy with other things."""


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[ViTScope, str]]:
    page = ViTScope()
    page.warm()
    for name, module in (("one", tiny_vit()), ("two", tiny_vit(size=RECTANGLE, seed=1))):
        page.studio.models.add(name, wrap_model(module, labels=LABELS, name=name))
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield page, url
    page.demo.close()


@pytest.fixture
def opened(server: tuple[ViTScope, str], page: Page) -> Page:
    """The tab with a photo given above."""
    page.set_default_timeout(PATIENCE)
    page.goto(server[1])
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    page.set_input_files("#vs-photo input[type=file]", FOLDER / "lion.jpg")
    page.locator("#vs-status", has_text="Maps ready").wait_for()
    page.locator("#vs-tabs button[role=tab]", has_text="Compare").click()
    return page


def type_in(page: Page, menu: str, *names: str) -> None:
    field = page.locator(f"{menu} input").first
    for name in names:
        field.click()
        field.fill(name)
        field.press("Enter")
    field.press("Escape")


def drop(page: Page, menu: str, name: str) -> None:
    page.locator(f"{menu} .token", has_text=name).locator(".token-remove").click()


def compare(page: Page, expected: str) -> None:
    page.locator("#vs-compare-go").click()
    page.locator("#vs-compare-status", has_text=expected).wait_for()


def downloaded(page: Page, button: Locator, folder: Path) -> Path:
    with page.expect_download() as waiting:
        button.click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_compare_from_choice_to_files(
    opened: Page, server: tuple[ViTScope, str], tmp_path: Path
) -> None:
    page = opened
    type_in(page, "#vs-compare-models", "one", "two", "absent_model")
    drop(page, "#vs-compare-methods", "Grad-CAM")
    drop(page, "#vs-compare-classes", "the class chosen above")
    type_in(page, "#vs-compare-classes", "teapot", "dragon")
    page.set_input_files("#vs-compare-files input[type=file]", FOLDER / "koala.jpg")
    page.locator("#vs-compare-files", has_text="koala").wait_for()
    compare(page, "Maps ready: 12 of 24.")
    table = page.locator("#vs-compare-table")
    assert table.locator("img").count() == 12
    assert table.locator("table").count() == 2
    assert "absent_model" in table.locator("td[colspan] .vs-refused").first.inner_text()
    assert table.locator("td .vs-refused", has_text="dragon").count() == 4
    assert "teapot" in (table.locator("img").last.get_attribute("alt") or "")

    # Two maps are clicked, and lie under one slider that keys move.
    table.locator("button[data-cell='2']").click()
    page.locator("#vs-compare-left input").and_(page.locator("[aria-label]")).first.wait_for()
    table.locator("button[data-cell='8']").click()
    slide = page.locator("#vs-compare-slide")
    slide.get_by_text("Relevance · teapot · two").first.wait_for()
    stage = slide.locator(".vs-stage")
    knob = stage.locator("input")
    knob.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert stage.evaluate("stage => stage.style.getPropertyValue('--cut')") == "60%"
    clip = stage.locator(".vs-over").evaluate("image => getComputedStyle(image).clipPath")
    assert clip.endswith("60%)")
    difference = page.locator("#vs-compare-difference")
    assert "largest difference is" in difference.inner_text()
    page.locator("#vs-compare-right input").first.click()
    page.get_by_role("option", name="2. ").first.click()
    difference.get_by_text("different units").wait_for()

    # Agreement: a full matrix for each photo, and a consensus.
    agreed = page.locator("#vs-compare-agreement")
    assert agreed.locator("table").count() == 2
    assert agreed.locator("td.vs-rank").count() == agreed.locator("td.vs-iou").count() == 2 * 15
    assert agreed.locator("img.vs-large").count() == 2
    page.locator("#vs-compare-scale label", has_text="One for each method").click()
    ends = table.locator("table").first.locator("tr:has(img) td:nth-of-type(2) .vs-scale span")
    page.wait_for_function(
        """() => { const ends = [...document.querySelectorAll(
          '#vs-compare-table table:first-of-type tr td:nth-of-type(2) .vs-scale span:last-child')];
          return ends.length > 1 && new Set(ends.map(e => e.textContent)).size === 1; }"""
    )
    assert ends.count() >= 6

    # The numbers and their recipe: made again from the photos, they are the same file.
    numbers = downloaded(page, page.locator("#vs-compare-numbers"), tmp_path)
    recipe = downloaded(page, page.locator("#vs-compare-recipe"), tmp_path)
    photos = [load_photo(FOLDER / name) for name in ("lion.jpg", "koala.jpg")]
    models = server[0].studio.models
    again = replay(open_recipe(recipe), photos, lambda name, **_: models.ready(name))  # type: ignore[arg-type, return-value]
    assert npz_bytes(again) == numbers.read_bytes()
    assert {"attention", "relevance"} < {*read_npz(numbers)}

    # The figure: its width follows the venue, its text is in the file.
    figure = page.locator("#vs-compare-figure")
    figure.locator("button").first.click()
    figure.get_by_label("Width for").click()
    page.get_by_role("option", name="IEEE, full width").click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('#vs-compare-figure input[type=number]')]"
        ".some(field => field.value === '181')"
    )
    figure.get_by_label("Letters").uncheck()
    figure.locator("label", has_text="SVG").click()
    figure.get_by_role("button", name="Make the figure").click()
    figure.locator(".vs-figure img").wait_for()
    file = downloaded(page, figure.locator("a[download], button", has_text="Download"), tmp_path)
    svg = file.read_text()
    assert 'width="513.' in svg
    assert ">Relevance, teapot, one</text>" in svg.replace("\n", "")
    assert "abnar2020quantifying" in figure.locator("textarea").last.input_value()
    assert "Models: one (weights" in figure.locator("textarea").first.input_value()
    assert len(open_recipe(file).maps) == 12


def test_too_many_maps_cancel_and_language(opened: Page) -> None:
    page = opened
    type_in(page, "#vs-compare-classes", "lion", "cougar")
    type_in(page, "#vs-compare-models", "one", "two", "embedded")
    type_in(page, "#vs-compare-examples", "Koala")
    compare(page, "2 photos × 3 models × 3 classes × 4 methods are 72 maps; at most 36")
    type_in(page, "#vs-compare-methods", "Occlusion")
    for name in ("one", "two"):
        drop(page, "#vs-compare-models", name)
    for name in ("Attention", "Attention rollout", "Relevance"):
        page.locator("#vs-compare-methods .token").filter(has_text=name).first.locator(
            ".token-remove"
        ).click()
    page.locator("#vs-compare-go").click()
    page.locator("#vs-compare-status", has_text="Occlusion").wait_for()
    page.locator("#vs-compare-cancel").click()
    page.locator("#vs-compare-status", has_text="Cancelled.").wait_for()
    assert page.locator("#vs-compare-table img").count() >= 1
    page.locator("#vs-lang input").click()
    page.get_by_role("option", name="中文").click()
    page.locator("#vs-compare-table th", has_text="回答").first.wait_for()


def test_the_figure_and_the_recipe_of_explain(opened: Page, tmp_path: Path) -> None:
    page = opened
    page.locator("#vs-tabs button[role=tab]", has_text="Explain").click()
    recipe = downloaded(page, page.locator("#vs-save-recipe"), tmp_path)
    numbers = downloaded(page, page.locator("#vs-save-all"), tmp_path)
    again = replay(open_recipe(recipe), load_photo(FOLDER / "lion.jpg"))
    assert npz_bytes(again) == numbers.read_bytes()
    assert "/" not in json.dumps(json.loads(recipe.read_text())["maps"][0]["model"])
    figure = page.locator("#vs-figure")
    figure.locator("button").first.click()
    figure.get_by_role("button", name="Make the figure").click()
    figure.locator(".vs-figure img").wait_for()
    file = downloaded(page, figure.locator("a[download], button", has_text="Download"), tmp_path)
    assert file.read_bytes().startswith(b"%PDF")
    assert open_recipe(file).maps == open_recipe(recipe).maps
    figure.locator("input[type=number]").first.fill("2")
    figure.get_by_role("button", name="Make the figure").click()
    page.locator(".toast-body", has_text="width must be from 20 to 500").wait_for()


def test_on_a_phone_nothing_sticks_out(server: tuple[ViTScope, str], browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, locale="en-US")
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(server[1])
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    page.set_input_files("#vs-photo input[type=file]", FOLDER / "lion.jpg")
    page.locator("#vs-status", has_text="Maps ready").wait_for()
    page.locator("#vs-tabs .overflow-menu > button").click()
    page.locator("#vs-tabs .overflow-dropdown button", has_text="Compare").click()
    compare(page, "Maps ready: 4 of 4.")
    page.locator("#vs-compare-agreement table").wait_for()
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth + 1")
    context.close()
