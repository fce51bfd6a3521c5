"""Every control above the tabs and of every tab is used once, and each does something."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from PIL import Image

from app.example_photos import FOLDER
from app.page import Page as ViTScope
from explainers import methods, wrap_model
from tests.tiny import LABELS, tiny_vit

if TYPE_CHECKING:
    from playwright.sync_api import Download, FileChooser, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [pytest.mark.browser, pytest.mark.long]

PATIENCE = 60_000
"""Milliseconds; generous, because the machine may be busy with other things."""

SOON = 5_000
"""Milliseconds for a control to take what is done to it; else it is gone."""

# What Gradio puts at its own components; our buttons have other names.
GRADIOS = [
    *("Fullscreen", "Exit fullscreen mode", "Download", "Remove Image", "Capture from camera"),
    *("Paste from clipboard", "Reset to default value", "Upload file", "Use via API", "Copy"),
]
MAKE = "Make the figure"
"""Pressed after each of the fields above it: once more, and the same figure is made."""
CANCEL = "Cancel"
"""Is there only while something is being made; the tests of what is made press it."""

PICKS = {
    **dict.fromkeys(("vs-model", "vs-compare-models"), "embedded"),
    # The final norm is what "automatic" means there: the same map.
    **dict.fromkeys(("vs-card-feature_pca", "vs-card-patch_similarity"), "output"),
}
"""Place → what is picked in its menu, where it must not be just another choice."""

UNSEEN = {
    # The small model has fewer masks and features than are tried anyway.
    ("vs-card-vit_cx", "range", "range slider for The most masks that are tried."),
    (
        "vs-card-score_cam",
        "range",
        "range slider for How many features are tried, those first that vary most over the photo.",
    ),
    # With the squares made larger before, so few are left that all sets of them are tried.
    ("vs-card-kernel_shap", "number", "Which random numbers are drawn."),
    # Of files that are saved from then on; the last test saves both kinds.
    ("vs-save-legend", "checkbox", "Saved pictures: with title and colour bar"),
}
"""Controls whose effect is not to be seen on this page."""

FIGURES = {
    **dict.fromkeys(("vs-figure7", "vs-figure7-examples", "vs-figure7-files"), "vs-figure7"),
    "vs-figure": "vs-figure",
    "vs-compare-figure": "vs-compare-figure",
}
"""Place → the panel whose figure is made with what is chosen there."""
MAKES = {
    "vs-figure7": "#vs-figure7-make",
    "vs-figure": "#vs-figure button.primary",
    "vs-compare-figure": "#vs-compare-figure button.primary",
}
"""Panel → the button that makes its figure."""
COMPARED = tuple(f"vs-compare-{what}" for what in ("models", "methods", "classes", "examples"))
"""Places whose choice counts at the press of Compare."""

CARDS = ".vs-cards"
BY_QUESTION = {
    question: [name for name, method in methods().items() if method.question == question]
    for question in dict.fromkeys(method.question for method in methods().values())
}
"""Question → the methods that answer it: as many cards as a page bears at once."""

SCRIPT = (Path(__file__).parent / "controls.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Control:
    """One control as a person sees it; n: its mark in the page, until it is drawn anew."""

    place: str
    kind: str
    name: str
    n: int
    disabled: bool
    chosen: bool

    @property
    def key(self) -> tuple[str, str, str]:
        return self.place, self.kind, self.name


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The page with a small model of random weights, for which every method is quick."""
    page = ViTScope()
    small = tiny_vit(dtype=torch.float32, dynamic_img_size=True)
    page.studio.models.add("small-one", wrap_model(small, labels=LABELS, name="small-one"))
    page.warm()
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield url
    page.demo.close()


class Visitor:
    """A person who tries one control after the other, and looks whether anything came of it."""

    def __init__(self, page: Page, address: str, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.errors: list[str] = []
        self.files: list[Download] = []
        self.figures: dict[str, bytes] = {}
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("download", lambda file: self.files.append(file))
        page.on("filechooser", self._choose)
        page.add_init_script(f"window.GRADIOS = {json.dumps(GRADIOS)};\n{SCRIPT}")
        page.goto(address)
        page.locator("#vs-status", has_text="Maps ready").wait_for()
        self.used: dict[tuple[str, str, str], None] = {}
        self.idle: set[tuple[str, str, str]] = set()
        self.missed: Counter[tuple[str, str, str]] = Counter()

    def _choose(self, chooser: FileChooser) -> None:
        """A photo, or the recipe that was saved before."""
        given = FOLDER / "koala.jpg"
        if chooser.element.evaluate("e => Boolean(e.closest('#vs-links'))"):
            given = self.folder / self.files[-1].suggested_filename
            self.files[-1].save_as(given)
        chooser.set_files(given)

    def controls(self, inside: str, outside: str) -> list[Control]:
        found = self.page.evaluate("controls", [inside, outside])
        return [Control(**control) for control in found]

    def seen(self, n: int) -> tuple[str, int]:
        """All that the page shows, but for the control itself."""
        return self.page.evaluate("shown", n), len(self.files)

    def settled(self, n: int) -> tuple[str, int]:
        before = None
        while (
            before != (before := self.seen(n)) or not self.page.locator("#vs-cancel").is_disabled()
        ):
            self.page.wait_for_timeout(700)
        return before

    def usable(self, control: Control) -> bool:
        """Whether it is still there and can be used, once nothing moves any more."""
        self.settled(0)
        at = self.page.locator(f"[data-control='{control.n}']")
        return at.count() == 1 and at.is_visible() and at.is_enabled()

    def use(self, control: Control) -> bool:
        """Whether anything changed: on the page, or in the figure that is made then."""
        before = self.seen(control.n)
        self._touch(control)
        if control.place in FIGURES and control.kind not in ("button", "fold"):
            return self._figure_changed(FIGURES[control.place])
        if control.place in COMPARED:
            self.page.locator("#vs-compare-go").click()
        for _ in range(40):
            self.page.wait_for_timeout(100)
            if self.seen(control.n) != before:
                break
        else:
            return False
        self.page.evaluate("() => document.fullscreenElement && document.exitFullscreen()")
        self.settled(control.n)
        return True

    def _figure_changed(self, panel: str) -> bool:
        """Whether the figure made now is another file than the one before."""
        self.page.locator(MAKES[panel]).click()
        for _ in range(120):
            self.page.wait_for_timeout(500)  # until then it is the figure before
            with self.page.expect_download() as waiting:
                self.page.locator(f"#{panel}-download").click()
            contents = waiting.value.path().read_bytes()
            if contents != self.figures.get(panel):
                self.figures[panel] = contents
                return True
        return False

    def _touch(self, control: Control) -> None:
        at = self.page.locator(f"[data-control='{control.n}']")
        at.scroll_into_view_if_needed(timeout=SOON)
        if control.kind == "range":
            at.press("ArrowLeft" if at.evaluate("e => e.value === e.max") else "ArrowRight")
        elif control.kind in ("number", "text"):
            at.fill(at.evaluate("e => String(+e.value + (e.value && e.value === e.max ? -1 : 1))"))
            at.press("Tab")
        elif control.kind == "menu":
            at.click()
            options = self.page.locator("[role=option]")
            options.first.wait_for()
            others = options.locator("xpath=self::*[@aria-selected='false']")
            wanted = others.filter(has_text=PICKS.get(control.place, ""))
            (wanted if wanted.count() else options).last.click()
            at.press("Escape")
        elif control.kind == "select":
            at.select_option(index=1)
        else:
            at.click(timeout=SOON)

    def use_all(self, inside: str, outside: str = "") -> None:
        """Each control there once, also those that come with another; then complain."""
        while left := [
            found
            for found in self.controls(inside, outside)
            if found.key not in self.used
            and not (found.disabled or found.chosen or found.name == CANCEL)
        ]:
            control = left[0]
            if not self.usable(control):
                continue  # while its map is made anew, say; by then there may be others
            self.used[control.key] = None
            try:
                changed = self.use(control)
            except playwright.TimeoutError:  # it went just now
                self.missed[control.key] += 1
                assert self.missed[control.key] < 3, control
                del self.used[control.key]
                continue
            if not changed and control.name != MAKE:
                self.idle.add(control.key)
            assert self.errors == []
            told = self.page.locator(".toast-body").all_inner_texts()
            assert told == [], (told, [key[1:] for key in list(self.used)[-6:]])


@pytest.fixture
def visitor(page: Page, address: str, tmp_path: Path, request: pytest.FixtureRequest) -> Visitor:
    """On a link to a photo, the small model, and the methods that a test may name."""
    ticked = "&methods=" + ",".join(request.param) if hasattr(request, "param") else ""
    return Visitor(page, f"{address}?photo=lion&model=small-one{ticked}", tmp_path)


def test_above_the_tabs(visitor: Visitor) -> None:
    visitor.use_all(".vs-head, .vs-choose")
    assert visitor.idle == set()


@pytest.mark.parametrize(
    ("tab", "seen"),
    [
        ("Explain", "#vs-card-rollout .vs-map img"),
        ("Attention", "#vs-attention canvas.photo"),
        ("Inside the model", "#vs-positions img"),
        ("Anatomy", "#vs-anatomy-picture img"),
        ("Compare", "#vs-compare-go"),
    ],
)
def test_on_a_tab(visitor: Visitor, tab: str, seen: str) -> None:
    visitor.page.get_by_role("tab", name=tab, exact=True).click()
    visitor.page.locator(seen).first.wait_for()
    visitor.use_all("[role=tabpanel]", CARDS)
    assert visitor.idle - UNSEEN == set()


@pytest.mark.parametrize("visitor", BY_QUESTION.values(), ids=list(BY_QUESTION), indirect=True)
def test_on_the_cards_of_the_methods(visitor: Visitor, request: pytest.FixtureRequest) -> None:
    visitor.use_all(CARDS)
    named = request.node.callspec.params["visitor"]
    assert {f"vs-card-{name}" for name in named} == {place for place, _, _ in visitor.used}
    assert visitor.idle - UNSEEN == set()


@pytest.mark.parametrize("visitor", [["rollout"]], ids=["rollout"], indirect=True)
def test_a_saved_picture_has_title_and_colour_bar_or_not(visitor: Visitor) -> None:
    page, sizes = visitor.page, []
    for _ in range(2):
        with page.expect_download() as waiting:
            page.locator("#vs-card-rollout").get_by_role("button", name="PNG").click()
        with Image.open(waiting.value.path()) as picture:
            sizes.append(picture.size)
        page.locator("#vs-save-legend input").uncheck()
    with_legend, without = sizes
    assert without[1] < with_legend[1]
