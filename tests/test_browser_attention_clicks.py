"""The Attention tab in a browser: a click pins the patch under it, and the menu tells why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.attention_data import ROLLED_TOKENS
from app.example_photos import FOLDER
from app.page import Page as ViTScope
from explainers import load_photo, wrap_model
from explainers.trace import Trace
from tests.tiny import LABELS, PATCH, tiny_vit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.long]

PHOTO = FOLDER / "koala.jpg"
WIDE, LARGE = (14, 28), (39, 40)
BOARD = "document.querySelector('#vs-attention .vs-board')"
PATIENCE = 45_000


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[ViTScope, str]]:
    """The page with a model of a wide grid and one of too many tokens to be rolled out."""
    page = ViTScope()
    page.warm()
    for name, grid in (("wide-one", WIDE), ("large-one", LARGE)):
        module = tiny_vit(size=(grid[0] * PATCH, grid[1] * PATCH))
        page.studio.models.add(name, wrap_model(module, labels=LABELS, name=name))
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield page, url
    page.demo.close()


def opened(page: Page, url: str, model: str, photo: Path = PHOTO) -> Locator:
    """The tab with a photo and a model; the canvas with the photo."""
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    field = page.locator("#vs-model input")
    field.click()
    field.fill(model)
    field.press("Enter")
    page.wait_for_function(
        "() => /5 (classes|个类别)/.test(document.querySelector('#vs-model-note').innerText)"
    )
    page.set_input_files("#vs-photo input[type=file]", photo)
    page.locator("#vs-tabs button[role=tab]").nth(1).click()
    page.wait_for_function(f"() => {BOARD}?.shown?.()")
    canvas = page.locator("#vs-attention canvas.photo")
    canvas.scroll_into_view_if_needed()
    page.wait_for_timeout(300)  # the charts below have come, nothing moves any more
    return canvas


def click(
    page: Page, canvas: Locator, trace: Trace, row: int, column: int, down: float, across: float
) -> None:
    """Press and let go inside a patch, so far from its top and left; then leave the photo."""
    box = canvas.bounding_box()
    assert box is not None
    left, top, right, bottom = trace.geometry.cell_box(row, column)
    height, width = trace.geometry.photo_size
    x = box["x"] + (left + across * (right - left)) * box["width"] / width
    y = box["y"] + (top + down * (bottom - top)) * box["height"] / height
    size = page.evaluate("[innerWidth, innerHeight]")
    assert 0 <= x < size[0]
    assert 0 <= y < size[1]  # else the click would miss the window
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(0, 0)


def clicks_pin(page: Page, canvas: Locator, trace: Trace) -> None:
    """Each corner patch, near its outer corner, near its inner one and in its middle."""
    rows, columns = middle = trace.grid[0] // 2, trace.grid[1] // 2
    for row in (0, trace.grid[0] - 1):
        for column in (0, trace.grid[1] - 1):
            for at in (0.04, 0.5, 0.96):
                click(page, canvas, trace, rows, columns, 0.5, 0.5)  # so that another is pinned
                assert pinned(page, trace) == middle
                across = at if (row > 0) == (column > 0) else 1 - at
                click(page, canvas, trace, row, column, at, across)
                assert pinned(page, trace) == (row, column)


def pinned(page: Page, trace: Trace) -> tuple[int, int]:
    """The row and column of what the board shows with the pointer away, from 0."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    view = page.evaluate(f"() => {BOARD}.view().token")
    page.wait_for_function(f"wanted => {BOARD}.shown()?.token === wanted", arg=view)
    row, column = divmod(view - trace.prefix, trace.grid[1])
    name = f"patch in row {row + 1}, column {column + 1} looks"
    page.locator("#vs-attention p.line", has_text=name).wait_for()
    return row, column


@pytest.mark.parametrize("zoom", [1.0, 1.5, 2.0])
def test_a_click_pins_exactly_its_patch(
    server: tuple[ViTScope, str], browser: Browser, zoom: float
) -> None:
    """On the page and in full screen. Zooming makes CSS pixels larger: fewer of them in the
    window, more device pixels each."""
    window: Any = {"width": round(1280 / zoom), "height": round(900 / zoom)}
    context = browser.new_context(locale="en-US", viewport=window, device_scale_factor=zoom)
    page = context.new_page()
    canvas = opened(page, server[1], "wide-one")
    vit = server[0].studio.models.ready("wide-one")
    assert vit is not None
    trace = vit.trace(load_photo(PHOTO))
    assert trace.grid == WIDE
    clicks_pin(page, canvas, trace)
    page.locator("#vs-attention button.full").click()
    page.wait_for_function("() => document.fullscreenElement?.classList.contains('vs-board')")
    page.wait_for_timeout(300)  # it is laid out anew
    canvas.scroll_into_view_if_needed()
    clicks_pin(page, canvas, trace)
    context.close()


@pytest.mark.parametrize(
    ("locale", "told"), [("en-US", f"up to {ROLLED_TOKENS} tokens"), ("zh-CN", f"{ROLLED_TOKENS}")]
)
def test_above_the_limit_the_menu_says_why_nothing_is_rolled_out(
    server: tuple[ViTScope, str], browser: Browser, locale: str, told: str
) -> None:
    context = browser.new_context(locale=locale, viewport={"width": 390, "height": 844})
    page = context.new_page()
    canvas = opened(page, server[1], "large-one")
    option = page.locator("#vs-attention .head option[value=rolled]")
    assert option.is_disabled()
    assert told in option.inner_text()
    canvas.focus()
    heads = page.locator("#vs-attention .head option").count()
    chosen = set()
    for _ in range(heads):  # the key goes round what can be chosen
        page.keyboard.press("h")
        chosen.add(page.evaluate(f"() => String({BOARD}.view().head)"))
    assert chosen == {"mean", "0", "1"}
    menu = page.locator("#vs-attention .head select").bounding_box()
    assert menu is not None
    assert menu["x"] + menu["width"] <= 390  # its long reason does not push it off a phone
    context.close()
