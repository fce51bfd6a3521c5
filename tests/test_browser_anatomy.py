"""The Anatomy tab in a browser: walked through once, by links, buttons, keys and clicks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import torch

from app.example_photos import FOLDER
from app.page import Page as ViTScope
from explainers import load_photo, wrap_model
from explainers.models.vit import VisionTransformer
from explainers.views.anatomy import Anatomy
from explainers.views.steps import STEPS
from tests.tiny import LABELS, RECTANGLE, tiny_vit

if TYPE_CHECKING:
    from playwright.sync_api import Page

CUT = """area => [...area.querySelectorAll('.vs-formula')].filter(
  formula => formula.scrollHeight > formula.clientHeight).map(formula => formula.innerText)"""
"""Formulas whose lower end is hidden."""

pytestmark = [pytest.mark.browser, pytest.mark.long]

PHOTOS = (FOLDER / "lion.jpg", FOLDER / "koala.jpg")
PATIENCE = 120_000
"""Milliseconds; generous, because the machine may be busy with other things."""


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[ViTScope, str]]:
    """The page with the embedded model, one with registers, and a reference ViT."""
    page = ViTScope()
    page.warm()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        reference = VisionTransformer(16, 4, 16, 3, 2, 32, 5, positions="2d").eval()
    for name, module in (
        ("tiny-four", tiny_vit(size=RECTANGLE, reg_tokens=2, dtype=torch.float32)),
        ("tiny-five", reference),
    ):
        page.studio.models.add(name, wrap_model(module, labels=LABELS, name=name))
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield page, url
    page.demo.close()


def visit(page: Page, address: str) -> list[str]:
    """Open an address; what the browser complains about from then on."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    return errors


def use_model(page: Page, name: str) -> None:
    field = page.locator("#vs-model input")
    field.click()
    field.fill(name)
    field.press("Enter")
    page.get_by_text("5 classes").wait_for()


def at_step(page: Page, step: str) -> None:
    page.locator(f"#vs-anatomy-watch .ready[data-step={step}]").wait_for(state="attached")


def numbers(page: Page) -> list[tuple[str, str, str]]:
    """The strips of the step: key, index, and the numbers written under it."""
    return page.evaluate(  # type: ignore[no-any-return]
        """() => [...document.querySelectorAll('#vs-anatomy .vs-vector')].map(strip => [
          strip.dataset.key,
          strip.dataset.index,
          strip.querySelector('.vs-numbers').textContent,
        ])"""
    )


def check_numbers(page: Page, anatomy: Anatomy) -> int:
    found = numbers(page)
    for key, index, text in found:
        row = anatomy.tensor(key)[tuple(int(i) for i in index.split(",") if i)]
        written = [float(n.replace("−", "-")) for n in text.replace(", …", "").split(", ")]
        expected = [float(v) for v in row[: len(written)]]
        assert written == pytest.approx(expected, abs=6e-4), key
    return len(found)


def anatomy_of(server: tuple[ViTScope, str], model: str, photo: Any) -> Anatomy:
    vit = server[0].studio.models.ready(model)
    assert vit is not None
    return Anatomy(vit.trace(load_photo(photo)))


@pytest.mark.parametrize(("model", "photo"), [("embedded", 0), ("tiny-four", 1), ("tiny-five", 1)])
def test_all_steps_are_walked(
    server: tuple[ViTScope, str], page: Page, model: str, photo: int
) -> None:
    errors = visit(page, f"{server[1]}?tab=anatomy")
    if model != "embedded":
        use_model(page, model)
    page.set_input_files("#vs-photo input[type=file]", PHOTOS[photo])
    page.locator("#vs-anatomy-picture img").wait_for()
    anatomy = anatomy_of(server, model, PHOTOS[photo])
    strips = 0
    for step in STEPS:
        at_step(page, step)
        assert page.locator("#vs-anatomy .vs-refused").count() == 0
        assert page.locator("#vs-anatomy .katex").count() > 0
        assert page.locator("#vs-anatomy .katex-error").count() == 0
        assert page.locator("#vs-anatomy").evaluate(CUT) == []
        assert page.locator("#vs-anatomy-picture img").get_attribute("alt")
        strips += check_numbers(page, anatomy)
        if step != STEPS[-1]:
            page.locator("#vs-anatomy-next").click()
    assert strips > 25
    label = anatomy.trace.top(1)[0][1].split(",")[0]
    assert label in page.locator("#vs-anatomy .vs-bars").inner_text()
    assert errors == []


def test_link_keys_click_and_cost(server: tuple[ViTScope, str], page: Page) -> None:
    errors = visit(page, f"{server[1]}?tab=anatomy&step=norm")
    page.set_input_files("#vs-photo input[type=file]", PHOTOS[0])
    at_step(page, "norm")
    area = page.locator("#vs-anatomy")
    area.focus()
    area.press("ArrowRight")
    at_step(page, "scores")
    area.press("ArrowLeft")
    at_step(page, "norm")
    picture = page.locator("#vs-anatomy-picture img")
    box = picture.bounding_box()
    assert box is not None
    picture.click(position={"x": box["width"] * 2.5 / 14, "y": box["height"] * 3.5 / 14})
    page.get_by_text("input.10[45]").wait_for()  # CLS, then row 3 and column 2 of 14
    page.locator("#vs-cost-figures", has_text="14 × 14 = 196").wait_for()
    page.locator("#vs-cost-height input").fill("392")
    page.locator("#vs-cost-figures", has_text="28 × 14 = 392").wait_for()
    page.locator("#vs-cost-patch input").fill("0")
    page.locator("#vs-cost-figures .vs-refused").wait_for()
    page.locator("#vs-cost-measure").click()
    page.locator("#vs-cost-cancel").click()
    page.locator("#vs-cost-progress", has_text="Cancelled").wait_for()
    page.locator("#vs-photo .icon-button-wrapper button").last.click()
    page.locator("#vs-anatomy-watch .empty").wait_for()
    assert errors == []
