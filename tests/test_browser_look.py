"""The size of the look in a browser: the cost under it, a whole photo, windows, a refusal."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from app.page import Page as ViTScope
from tests.browser_page import Server, give, ready, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.long]

PATIENCE = 180_000
"""Milliseconds: a look at 2,917 tokens takes long where the machine is busy with other things."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    page = ViTScope()
    page.warm()
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield Server(page, url)
    page.demo.close()


def look(page: Page, name: str) -> None:
    page.locator("#vs-look label", has_text=name).click()


def wait_note(page: Page, text: str) -> str:
    note = page.locator("#vs-look-note")
    page.wait_for_function(
        "t => document.querySelector('#vs-look-note')?.innerText.includes(t)", arg=text
    )
    return note.inner_text()


def wait_card(page: Page, text: str, there: bool = True) -> None:
    """Wait until the rollout's card says so, or does not any more, and all maps are there."""
    page.wait_for_function(
        "([text, there]) => document.querySelector('#vs-card-rollout')"
        ".textContent.includes(text) === there",
        arg=[text, there],
    )
    ready(page)


def shot(page: Page, name: str) -> None:
    """A picture for people to look at, where they ask for one: VITSCOPE_SHOTS=FOLDER."""
    if folder := os.environ.get("VITSCOPE_SHOTS"):
        page.screenshot(path=f"{folder}/size-{name}.png", full_page=True)


def test_a_whole_photo_and_windows_are_looked_at(
    server: Server, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit(server, page)
    page.set_default_timeout(PATIENCE)
    give(page)
    ready(page)
    look(page, "the whole photo")
    note = wait_note(page, "54×54 patches: N = 2,917 tokens")  # 768 px, patches of 14
    assert re.search(r"about [\d.,]+ s and [\d.,]+ MB", note)
    side = page.locator("#vs-look-side input[type=number]")
    side.fill("448")
    side.press("Tab")  # a number is taken when its field is left
    wait_note(page, "32×32 patches: N = 1,025 tokens")
    wait_card(page, "32×32 patches; the model was trained at")
    shot(page, "whole")

    look(page, "windows")
    note = wait_note(page, "4 windows of 14×14 patches: N = 197 tokens each")
    assert "4 separate looks" in note
    wait_card(page, "4 separate looks")
    shot(page, "windows")

    monkeypatch.setattr("explainers.memory_limit.free_bytes", lambda device: 30_000_000)
    look(page, "the whole photo")
    side.fill("2048")
    side.press("Tab")  # a number is taken when its field is left
    refusal = wait_note(page, "the largest that fits is a long side of")
    assert "more than 80 % of the" in refusal
    shot(page, "refused")
    monkeypatch.undo()

    look(page, "the model's own")
    wait_card(page, "separate looks", there=False)
    assert page.locator("#vs-look-side").is_hidden()
