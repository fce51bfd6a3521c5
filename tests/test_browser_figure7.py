"""Figure 7 in a browser: made over a set of photos, cancelled, saved, and gone with its model."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image
from pypdf import PdfReader

from app import figure7_events
from app.example_photos import FOLDER
from app.page import Page as ViTScope
from explainers import load_photo, wrap_model
from explainers.render.metadata import read_metadata
from explainers.views.heads import head_figures_of
from tests.tiny import LABELS, tiny_photo_array, tiny_vit

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[ViTScope, str]]:
    page = ViTScope()
    page.warm()
    for seed, name in enumerate(("small-one", "small-two")):
        module = tiny_vit(seed=seed, dtype=torch.float32)
        page.studio.models.add(name, wrap_model(module, labels=LABELS, name=name))
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield page, url
    page.demo.close()


def name_model(page: Page, name: str) -> None:
    field = page.locator("#vs-model input")
    field.click()
    field.fill(name)
    field.press("Enter")


def opened(page: Page, url: str) -> Page:
    page.set_default_timeout(60_000)
    page.goto(url)
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    page.get_by_role("tab", name="Inside the model").click()
    name_model(page, "small-one")
    page.get_by_text("All 16 filters of 4×4 pixels").wait_for()
    return page


def make(page: Page) -> None:
    page.locator("#vs-figure7-make").click()


def test_the_figure_is_made_over_examples_and_uploads(
    server: tuple[ViTScope, str], page: Page, tmp_path: Path
) -> None:
    opened(page, server[1])
    upload = tmp_path / "own.png"
    Image.fromarray(tiny_photo_array()).save(upload)
    page.set_input_files("#vs-figure7-files input[type=file]", upload)
    page.locator("#vs-figure7-files").get_by_text("own.png").or_(
        page.locator("#vs-figure7-files").get_by_text("own")
    ).first.wait_for()
    make(page)
    picture = page.locator("#vs-figure7-preview img")
    picture.wait_for()
    assert "over 7 photos" in (picture.get_attribute("alt") or "")
    with page.expect_download() as download:
        page.locator("#vs-figure7-download").click()
    saved = tmp_path / "figure7.pdf"
    download.value.save_as(saved)
    (sheet,) = PdfReader(io.BytesIO(saved.read_bytes())).pages
    assert float(sheet.mediabox.width) == pytest.approx(183 / 25.4 * 72, abs=0.05)
    photos = [load_photo(path) for path in [*sorted(FOLDER.glob("*.jpg")), upload]]
    vit = server[0].studio.models.ready("small-one")
    assert vit is not None
    found = head_figures_of(vit, photos)
    np.testing.assert_allclose(read_metadata(saved)["heads"]["distance"], found.distance, rtol=1e-5)
    name_model(page, "small-two")
    picture.wait_for(state="hidden")


def test_it_can_be_cancelled_and_needs_a_photo(
    server: tuple[ViTScope, str], page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def endless(vit: Any, photos: Any, progress: Any) -> None:
        begun.set()
        while True:
            progress(1, 2)
            threading.Event().wait(0.02)

    opened(page, server[1])
    monkeypatch.setattr(figure7_events, "figure7", endless)
    make(page)
    page.get_by_text("Measuring how far the heads look").wait_for()
    assert begun.wait(30)
    page.locator("#vs-figure7-cancel").click()
    page.locator("#vs-figure7-status").get_by_text("Stopped").wait_for()
    monkeypatch.undo()
    page.locator("#vs-figure7-examples .remove-all").click()
    make(page)
    page.locator("#vs-figure7-preview img").wait_for()
    assert "none was given" in page.locator("#vs-figure7 textarea").first.input_value()
