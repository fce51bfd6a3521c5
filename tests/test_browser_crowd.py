"""Eight visitors at once for five minutes, on all tabs: no error, no cross-talk, no hoarding."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from html import unescape
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from app.choose import TOP
from app.class_list import percent
from app.classes import top
from app.example_photos import FOLDER
from app.page import Page as ViTScope
from explainers import load_photo

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.long]

VISITORS = 8
SECONDS = 300
PATIENCE = 180_000
"""Milliseconds; eight visitors share two cores."""
ALLOWED = 100_000_000
"""Bytes that may be held after all have left, beyond those after the first visitor had."""

SEEN = {
    "Attention": "#vs-attention .vs-board:not(.old) canvas.photo",
    "Inside the model": "#vs-positions img",
    "Anatomy": "#vs-anatomy-picture img",
    "Explain": "#vs-card-rollout .vs-map img",
}
"""Tab → what shows that its contents are there."""

Step = tuple[Callable[[], None], Callable[[], None]]
"""What a visitor does, and waiting for what comes of it."""


def held() -> int:
    """The memory of this process, which is also the server's, with nothing freed kept back."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[ViTScope, str]]:
    page = ViTScope()
    page.studio.desks.idle = 20  # seconds until what came after leaving is forgotten, not 300
    page.warm()
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield page, url
    page.demo.close()


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two photos a visitor, no two alike: the examples, mirrored, upside down, and cut."""
    folder, found = tmp_path_factory.mktemp("photos"), []
    for name in sorted(FOLDER.glob("*.jpg")):
        image = Image.open(name)
        width, height = image.size
        for i, changed in enumerate(
            (
                image,
                image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
                image.crop((0, 0, width * 3 // 4, height)),
            )
        ):
            found.append(folder / f"{name.stem}-{i}.png")
            changed.save(found[-1])
    return found[: 2 * VISITORS]


def answers(page: ViTScope, path: Path) -> str:
    """What the list of classes must say of a photo, as the browser reads it."""
    vit = page.studio.models.ready("embedded")
    assert vit is not None
    shown, _ = top(vit.trace(load_photo(path)), TOP)
    texts = [f"{name} {unescape(percent(share))}" for name, share in shown.items()]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def working() -> bool:
    """Whether a model still runs: work that was stopped ends at its next model call."""
    frames = sys._current_frames()
    workers = [t.ident for t in threading.enumerate() if t.name.startswith("model")]
    return any(frames[w].f_code.co_name != "_worker" for w in workers if w in frames)


def leave(page: ViTScope, visitors: list[Visitor]) -> None:
    """All close their windows, and the server forgets them; also one whose last request came
    later than the news that they left."""
    for visitor in visitors:
        visitor.context.close()
    end = time.monotonic() + 60
    while (len(page.studio.desks) or working()) and time.monotonic() < end:
        time.sleep(0.2)
    assert not any(
        job and not job.ended for d in page.studio.desks.all() for job in (d.job, d.aside)
    )


class Visitor:
    """One browser session that goes round the tabs, a step at a time.

    A step is begun and then waited for, so that all can begin before any waits.
    """

    def __init__(self, browser: Browser, url: str, photos: list[tuple[Path, str]]) -> None:
        self.context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900})
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.set_default_timeout(PATIENCE)
        self.page.goto(url)
        self.page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
        self.photos = cycle(photos)
        self.wanted = ""
        self.steps: Iterator[Step] = cycle(
            [
                (self.give, self.given),
                self.seeing("Attention"),
                self.seeing("Inside the model"),
                self.seeing("Anatomy"),
                (self.compare, self.compared),
                self.seeing("Explain"),
            ]
        )
        self.waiting: Callable[[], None] = self.given
        self.done = 0

    def begin(self) -> None:
        act, self.waiting = next(self.steps)
        act()

    def finish(self) -> None:
        self.waiting()
        self.done += 1
        assert self.errors == []
        assert self.page.locator(".toast-body").count() == 0

    def give(self) -> None:
        """Another photo."""
        path, self.wanted = next(self.photos)
        self.page.set_input_files("#vs-photo input[type=file]", path)

    def given(self) -> None:
        """The answers are the library's own for this visitor's photo."""
        self.page.wait_for_function(
            "wanted => JSON.stringify([...document.querySelectorAll('#vs-top button')]"
            ".map(b => b.innerText.replace(/\\s+/g, ' ').trim())) === wanted",
            arg=self.wanted,
        )

    def seeing(self, tab: str) -> Step:
        return (
            self.page.get_by_role("tab", name=tab, exact=True).click,
            self.page.locator(SEEN[tab]).first.wait_for,
        )

    def compare(self) -> None:
        self.page.get_by_role("tab", name="Compare", exact=True).click()
        self.page.locator("#vs-compare-go").click()

    def compared(self) -> None:
        self.page.locator("#vs-compare-table img").first.wait_for()


def test_eight_visitors_for_five_minutes(
    server: tuple[ViTScope, str], browser: Browser, photos: list[Path]
) -> None:
    pytest.importorskip("resource", reason="memory is read from Linux's /proc")
    page, url = server
    known = [(path, answers(page, path)) for path in photos]
    first = Visitor(browser, url, known[:2])
    for _ in range(12):
        first.begin()
        first.finish()
    leave(page, [first])
    before = held()
    visitors = [Visitor(browser, url, known[2 * i : 2 * i + 2]) for i in range(VISITORS)]
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for visitor in visitors:
            visitor.begin()
        for visitor in visitors:
            visitor.finish()
    assert all(visitor.done >= 6 for visitor in visitors)  # each has seen every tab
    leave(page, visitors)
    assert held() - before < ALLOWED
