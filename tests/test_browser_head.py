"""The head of the page in a browser: short enough that maps are seen without scrolling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from app.page import Page as ViTScope

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    page = ViTScope()
    page.warm()
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield url
    page.demo.close()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_tabs_and_maps_are_seen_on_a_small_screen(address: str, page: Page, lang: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{address}?lang={lang}")
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    page.locator("#vs-examples button").nth(1).click()
    page.wait_for_selector("#vs-card-rollout .vs-map img", timeout=60_000)
    for selector, lowest in (("#vs-tabs button[role=tab]", 470), (".vs-map img", 700)):
        box = page.locator(selector).first.bounding_box()
        assert box is not None
        assert box["y"] <= lowest, selector
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    assert page.locator("#vs-lang input").get_attribute("aria-label") == "Language / 语言"
    for button in ("copy", "save", "open"):
        assert page.locator(f"#vs-link-{button}").is_visible()
