"""Links and recipes in a browser: everything restored, wrong values said, the rest restored."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from app.page import Page as ViTScope
from explainers import load_photo, wrap_model
from tests.browser_page import LION, Server, card, download, give, name_model, ready, source, visit
from tests.tiny import LABELS, tiny_photo_array, tiny_vit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.long]

PATIENCE = 120_000
LINK = (
    "?photo=koala&model=small-one&tab=explain&target=2&against=4&methods=attention,rollout,saliency"
    "&style=map&extent=shared&opacity=0.3&smooth=1&attention.block=1&rollout.fusion=max"
    "&look=whole&side=224"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    page = ViTScope()
    page.warm()
    small = tiny_vit(dtype=torch.float32, dynamic_img_size=True)
    page.studio.models.add("small-one", wrap_model(small, labels=LABELS, name="small-one"))
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield Server(page, url)
    page.demo.close()


def value(page: Page, selector: str) -> str:
    return page.locator(f"{selector} input").first.input_value()


def checked(page: Page) -> list[str]:
    return page.locator(".vs-group label:has(input:checked)").all_inner_texts()


def setting(page: Page, method: str, number: int) -> str:
    field = card(page, method).locator(".vs-settings input").nth(number)
    if not field.is_visible():
        card(page, method).get_by_role("button", name="Settings").click()
    return field.input_value()


def note(page: Page) -> list[str]:
    return page.locator("#vs-link-note p").all_inner_texts()


def shot(page: Page, name: str) -> None:
    """A picture for people to look at, where they ask for one: VITSCOPE_SHOTS=FOLDER."""
    if folder := os.environ.get("VITSCOPE_SHOTS"):
        page.screenshot(path=f"{folder}/link-{name}.png", full_page=True)


def check_restored(page: Page) -> None:
    """All that LINK says, and maps made with it."""
    ready(page, 3)
    card(page, "saliency").get_by_text("For espresso").wait_for()
    assert "against teapot" in card(page, "saliency").inner_text()
    assert value(page, "#vs-model") == "small-one"
    assert "3 blocks × 2 heads" in page.locator("#vs-model-note").inner_text()
    assert value(page, "#vs-target").startswith("espresso")
    assert value(page, "#vs-against").startswith("teapot")
    assert [text.split(" · ")[0] for text in checked(page)] == [
        *("Attention", "Attention rollout", "Saliency")
    ]
    assert setting(page, "attention", 0) == "1"
    assert page.locator("#vs-look input:checked").get_attribute("value") == "whole"
    assert page.locator("#vs-look-side input[type=number]").input_value() == "224"
    assert page.locator(".vs-options input[value=map]").is_checked()
    assert "koala" in (page.locator("#vs-photo img").get_attribute("src") or "")
    assert source(page, "rollout")


def test_a_link_restores_everything_and_is_told_again(
    server: Server, page: Page, tmp_path: Path
) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    visit(server, page, LINK)
    page.set_default_timeout(PATIENCE)
    check_restored(page)
    assert note(page) == []
    page.locator("#vs-link-copy").click()
    page.wait_for_function(
        "() => document.querySelector('#vs-link-address :is(input, textarea)')"
        "?.value.includes('?photo=')"
    )
    link = page.locator("#vs-link-address").locator("textarea, input").first.input_value()
    assert link.startswith(server.url)
    assert sorted(link.partition("?")[2].split("&")) == sorted(LINK[1:].split("&"))
    shot(page, "copied")
    path = download(page, page.locator("#vs-link-save"), tmp_path)
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["target"] == {"index": 2, "label": "espresso"}
    assert "koala" in path.name

    name_model(page, "embedded")
    page.get_by_text("12 blocks").wait_for()
    page.get_by_label("Saliency").uncheck()
    page.locator("#vs-examples button").nth(1).click()
    ready(page, 2)
    page.get_by_role("tab", name="Compare", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.locator("#vs-link-open").click()
    chooser.value.set_files(path)
    page.locator("#vs-go").wait_for()
    page.get_by_text("5 classes").wait_for()
    check_restored(page)
    assert errors == []


def test_wrong_values_are_said_and_the_rest_is_restored(server: Server, page: Page) -> None:
    wrong = LINK.replace("koala", "dragon").replace("fusion=max", "fusion=magic")
    wrong = wrong.replace("model=small-one", "model=no-such-model").replace("saliency", "spell")
    visit(server, page, wrong.replace("tab=explain", "tab=attention") + "&lang=en")
    page.set_default_timeout(PATIENCE)
    page.locator("#vs-link-note", has_text="Setting fusion must be").wait_for()
    said = note(page)
    assert [line.split(" here,")[0] for line in said if " here," in line] == [
        *("methods cannot be spell", "photo cannot be dragon")
    ]
    assert any("no-such-model" in line for line in said)
    assert len(said) == 5
    shot(page, "wrong")
    page.get_by_role("tab", name="Attention", selected=True).wait_for()
    page.get_by_role("tab", name="Explain", exact=True).click()
    assert [text.split(" · ")[0] for text in checked(page)] == ["Attention", "Attention rollout"]
    give(page, LION)
    ready(page, 2)
    assert value(page, "#vs-model").endswith("embedded")
    assert setting(page, "attention", 0) == "1"
    page.locator("#vs-link-copy").click()
    page.locator("#vs-link-note", has_text="The link is copied").wait_for()


def test_a_link_speaks_the_browsers_language(server: Server, browser: Browser) -> None:
    context = browser.new_context(locale="zh-CN")
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(server.url + "?photo=lion&model=small-one&methods=rollout&opacity=7")
    page.locator("#vs-status", has_text="已完成 1").wait_for()
    page.locator("#vs-model-note", has_text="共 5 个类别").wait_for()
    assert note(page) == ["opacity 在此不能是 7，因此略去；可选：0 到 1 之间的数。"]
    context.close()


def test_a_link_opens_the_attention_tab_where_it_was(server: Server, page: Page) -> None:
    page.set_default_timeout(PATIENCE)
    link = "?photo=lion&tab=attention&board.block=3&board.head=2&board.token=40&board.who=1"
    visit(server, page, link)
    page.wait_for_function("() => document.querySelector('#vs-attention .vs-board')?.shown?.()")
    view = page.evaluate("() => document.querySelector('#vs-attention .vs-board').view()")
    assert view == {"block": 3, "head": 2, "token": 40, "who": True}
    assert page.locator("#vs-attention .head select").input_value() == "2"
    assert note(page) == []
    page.locator("#vs-attention [data-step='1']").click()
    page.locator("#vs-link-copy").click()
    page.wait_for_function(
        "() => document.querySelector('#vs-link-address :is(input, textarea)')"
        "?.value.includes('board.block=4&board.head=2&board.token=40&board.who=1')"
    )


def test_a_link_opens_the_anatomy_tab_where_it_was(server: Server, page: Page) -> None:
    place = {"row": "2", "column": "5", "block": "3", "head": "1"}
    link = "?photo=lion&tab=anatomy&step=scores&" + "&".join(
        f"place.{name}={value}" for name, value in place.items()
    )
    visit(server, page, link)
    page.locator("#vs-anatomy-watch .ready[data-step=scores]").wait_for(state="attached")
    fields = page.locator(".vs-anatomy-places input[type=number]")
    assert [field.input_value() for field in fields.all()] == ["2", "5"]
    for name in ("block", "head"):
        shown = page.locator(f"#vs-anatomy-{name} input[type=number]").input_value()
        assert shown == place[name]
    page.locator("#vs-link-copy").click()
    page.wait_for_function(
        "told => document.querySelector('#vs-link-address :is(input, textarea)')"
        "?.value.includes(told)",
        arg="place.row=2&place.column=5&place.block=3&place.head=1&place.asks=patch",
    )


def test_a_link_opens_the_comparison_that_was_chosen(server: Server, page: Page) -> None:
    page.set_default_timeout(PATIENCE)
    chosen = "compare.methods=rollout|grad_cam&compare.photos=koala&compare.scale=shared"
    visit(server, page, "?photo=lion&tab=compare&" + chosen)
    page.wait_for_function(
        "() => document.querySelector('#vs-compare-scale input:checked')?.value === 'shared'"
    )
    methods = page.locator("#vs-compare-methods .token").all_inner_texts()
    assert [text.strip() for text in methods] == ["Attention rollout", "Grad-CAM"]
    assert "A koala in a tree" in page.locator("#vs-compare-examples").inner_text()


def test_an_own_photo_is_not_in_the_link(server: Server, page: Page, tmp_path: Path) -> None:
    own = tmp_path / "lion.png"  # an example's name, but not its pixels
    load_photo(tiny_photo_array()).to_pil().save(own)
    visit(server, page)
    give(page, own)
    ready(page)
    page.locator("#vs-link-copy").click()
    page.locator("#vs-link-note", has_text="Your own photo is not in it").wait_for()
    link = page.locator("#vs-link-address").locator("textarea, input").first.input_value()
    assert "photo=" not in link
    assert "target=" not in link
    assert "model=embedded" in link
    assert len(note(page)) == 1  # which does not promise the photo or the class


def test_a_class_without_its_photo_is_left_out_in_a_sentence(server: Server, page: Page) -> None:
    visit(server, page, "?target=3&against=1")
    page.locator("#vs-link-note", has_text="The class is left out").wait_for()
