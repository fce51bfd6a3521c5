"""The page in a browser: served with two models, visited, given photos, read from its cards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.example_photos import FOLDER
from app.page import Page as ViTScope
from explainers import wrap_model
from explainers.registry import DEFAULT_METHODS
from tests.tiny import LABELS, tiny_vit

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

QUICK = DEFAULT_METHODS
LION = FOLDER / "lion.jpg"
PATIENCE = 45_000
"""Milliseconds; generous, because the machine may be busy with other things."""


class Server:
    """The page being served, and its address."""

    def __init__(self, page: ViTScope, url: str) -> None:
        self.page, self.url = page, url


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The page with the embedded model and a small one, "small-one", of other classes."""
    page = ViTScope()
    page.warm()
    page.studio.models.add("small-one", wrap_model(tiny_vit(), labels=LABELS, name="small-one"))
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield Server(page, url)
    page.demo.close()


@pytest.fixture
def opened(server: Server, page: Page) -> Page:
    """The page as a visitor finds it, once the model is there."""
    return visit(server, page)


def visit(server: Server, page: Page, address: str = "") -> Page:
    page.set_default_timeout(PATIENCE)
    page.goto(server.url + address)
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    return page


def give(page: Page, photo: Path | str = LION) -> None:
    page.set_input_files("#vs-photo input[type=file]", photo)


def ready(page: Page, count: int = 4) -> None:
    """Wait for all maps; the count is in the status line, in either language."""
    page.wait_for_function(
        "n => new RegExp('(Maps ready: |已完成 )' + n)"
        ".test(document.querySelector('#vs-status').innerText)",
        arg=count,
    )


def card(page: Page, name: str) -> Locator:
    return page.locator(f"#vs-card-{name}")


def source(page: Page, name: str) -> str:
    return card(page, name).locator(".vs-map img").get_attribute("src") or ""


def classes(page: Page) -> list[str]:
    texts = page.locator("#vs-top button").all_inner_texts()
    return [text.split("\n")[0].strip() for text in texts]


def name_model(page: Page, name: str) -> None:
    """Type a model's name into the menu."""
    field = page.locator("#vs-model input")
    field.click()
    field.fill(name)
    field.press("Enter")


def choose(page: Page, menu: str, label: str) -> None:
    """Search a class and take the one whose label begins with ``label``."""
    field = page.locator(f"{menu} input")
    field.click()
    field.press_sequentially(label)
    page.get_by_role("option", name=re.compile(f"^{label}")).first.click()


def download(page: Page, button: Locator, folder: Path) -> Path:
    with page.expect_download() as waiting:
        button.click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path
