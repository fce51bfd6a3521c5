"""axe-core finds nothing serious in the page: every tab, in English, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.page import Page as ViTScope
from tests.browser_page import Server, give, ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.long]

PATIENCE = 120_000
"""Milliseconds; the machine may be busy with other things."""

EXCUSED: tuple[tuple[str, str, str], ...] = (
    (
        "[aria-label='Empty value']",
        "aria-prohibited-attr",
        "gr.Image without a picture names a div that has no role",
    ),
)
"""What a Gradio component has that Python cannot reach: (selector, rule, reason). It may only
shrink."""

TABS = ("explain", "attention", "inside", "anatomy", "compare")

SETTLED = {
    "explain": "#vs-card-rollout .vs-map img",
    "attention": "#vs-attention",
    "inside": "#vs-positions img",
    "anatomy": "#vs-anatomy-picture img",
    "compare": "#vs-compare-go",
}
"""What shows that a tab's contents are there."""

CHECK = """async () => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  return found.violations.filter(v => ['serious', 'critical'].includes(v.impact)).flatMap(
    v => v.nodes.map(n => ({rule: v.id, target: n.target.flat().join(' '),
                            html: n.html.slice(0, 300), why: n.failureSummary})));
}"""


def axe() -> Path:
    """The axe-core that the test requirement axe-playwright-python carries."""
    found = find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        pytest.skip("axe-core is missing: pip install -r requirements-dev.txt")
    return Path(found.origin).with_name("axe.min.js")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    page = ViTScope()
    page.warm()
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield Server(page, url)
    page.demo.close()


def violations(page: Page) -> list[dict[str, Any]]:
    """What axe-core calls serious or critical and nobody has excused."""
    found: list[dict[str, Any]] = page.evaluate(CHECK)
    return [
        one
        for one in found
        if not any(
            one["rule"] == rule
            and page.locator(one["target"]).first.evaluate(
                "(node, selector) => node.matches(selector)", selector
            )
            for selector, rule, _ in EXCUSED
        )
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_violation_on_any_tab(server: Server, browser: Browser, theme: str) -> None:
    script = axe()
    context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{server.url}?__theme={theme}")
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    page.add_script_tag(path=str(script))
    found = {"empty": violations(page)}
    give(page)
    ready(page)
    for number, tab in enumerate(TABS):
        if number:
            page.locator("#vs-tabs [role=tab]").nth(number).click()
        page.locator(SETTLED[tab]).first.wait_for()
        page.wait_for_function("!document.querySelector('.pending')")  # what is awaited is faded
        page.wait_for_timeout(1000)
        found[tab] = violations(page)
    context.close()
    assert {tab: list_ for tab, list_ in found.items() if list_} == {}
