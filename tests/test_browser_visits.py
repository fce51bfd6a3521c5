"""Visits in a browser: language, keyboard, tabs, a phone, privacy, and programs that ask."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from explainers import methods
from explainers.render.npz import read_npz
from tests.browser_page import (
    LION,
    Server,
    card,
    classes,
    give,
    name_model,
    opened,
    ready,
    server,
    visit,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("locale", "tab"),
    [
        ("zh-CN", "模型内部"),
        ("zh-HK", "模型内部"),
        ("zh", "模型内部"),
        ("fr-FR", "Inside the model"),
    ],
)
def test_language_follows_the_browser(
    server: Server, browser: Browser, locale: str, tab: str
) -> None:
    context = browser.new_context(locale=locale)
    page = visit(server, context.new_page())
    page.get_by_role("tab", name=tab).wait_for()
    context.close()


def test_language_can_be_switched_and_is_remembered(opened: Page, server: Server) -> None:
    page = opened
    give(page)
    ready(page)
    page.locator("#vs-lang input").click()
    page.get_by_role("option", name="中文").click()
    page.get_by_role("tab", name="比较").wait_for()
    card(page, "rollout").get_by_text("对所有类别都一样").wait_for()
    page.locator("#vs-card-rollout .vs-map img[alt*=注意力展开]").wait_for()
    assert page.locator("#vs-examples img").first.get_attribute("alt") == "一杯咖啡"
    bodies = page.locator("body").inner_text()
    assert "__i18n__" not in bodies
    assert not re.search(r"\b(Opacity|Waiting|Explain|Choose)\b", bodies)
    visit(server, page)
    page.get_by_role("tab", name="比较").wait_for()


def test_examples_are_reached_by_keyboard_and_named(opened: Page) -> None:
    page = opened
    first = page.locator("#vs-examples button").first
    assert first.locator("img").get_attribute("alt") == "A cup of coffee"
    first.focus()
    page.keyboard.press("Enter")
    ready(page)
    assert classes(page)[0] == "espresso"


def test_inside_the_model(opened: Page) -> None:
    page = opened
    page.get_by_role("tab", name="Inside the model").click()
    for name in ("filters", "components", "positions"):
        page.locator(f"#vs-{name} img").wait_for()
    assert "384 filters" in page.locator("body").inner_text()
    assert page.locator("#vs-positions img").get_attribute("alt")
    name_model(page, "small-one")
    page.get_by_text("All 16 filters of 4×4 pixels").wait_for()


def test_the_other_tabs_open_before_a_photo_is_given(opened: Page) -> None:
    page = opened
    for name, words in (
        ("Anatomy", "What it costs"),
        ("Compare", "side by side: where their maps agree"),
    ):
        page.get_by_role("tab", name=name, exact=True).click()
        page.get_by_text(words).wait_for()


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_needs_no_sideways_scrolling(server: Server, browser: Browser, dark: bool) -> None:
    scheme: Any = "dark" if dark else "light"
    size: Any = {"width": 390, "height": 844}
    context = browser.new_context(locale="en-US", viewport=size, color_scheme=scheme)
    page = visit(server, context.new_page())
    give(page)
    ready(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    width = card(page, "rollout").bounding_box()
    assert width is not None
    assert 300 < width["width"] <= 390
    assert page.get_by_label("Saliency").is_hidden()  # the methods are folded above the maps
    page.locator(".vs-methods-fold > button").click()
    page.get_by_label("Saliency").wait_for()
    context.close()


def test_nothing_is_asked_of_any_other_machine(server: Server, page: Page) -> None:
    hosts = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    visit(server, page)
    give(page)
    ready(page)
    page.get_by_role("tab", name="Inside the model").click()
    page.locator("#vs-positions img").wait_for()
    assert hosts - {None, ""} == {"127.0.0.1"}
    assert errors == []
    for path, status in (
        ("gradio_api/file=https://example.com/a.png", 403),
        ("monitoring/summary", 403),
    ):
        assert page.request.get(server.url + path).status == status


def test_leaving_deletes_the_photo(server: Server, browser: Browser) -> None:
    desks = server.page.studio.desks
    context = browser.new_context(locale="en-US")
    page = visit(server, context.new_page())
    give(page)
    ready(page)
    folders = {desk.folder for desk in desks.all()}
    photos = [path for folder in folders for path in folder.rglob("lion.jpg")]
    assert photos
    context.close()
    end = time.monotonic() + 20
    while any(path.exists() for path in photos) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(path.exists() for path in photos)


def test_programs_can_ask_too(server: Server, tmp_path: Path) -> None:
    client_module = pytest.importorskip("gradio_client")
    client = client_module.Client(server.url, verbose=False, download_files=str(tmp_path))
    photo = client_module.handle_file(str(LION))
    answer, overlays, file = client.predict(
        photo, "embedded", "rollout, saliency", "lion", "", api_name="/explain"
    )
    assert answer["top"][0]["label"].startswith("lion")
    assert answer["refused"] == {}
    assert [overlay["caption"] for overlay in overlays] == ["Attention rollout", "Saliency"]
    assert {"rollout", "saliency"} <= read_npz(file).keys()
    assert {entry["name"] for entry in client.predict(api_name="/methods")} == {*methods()}
    with pytest.raises(Exception, match="There is no method 'nonsense'"):
        client.predict(photo, "embedded", "nonsense", "", "", api_name="/explain")
    client.close()
