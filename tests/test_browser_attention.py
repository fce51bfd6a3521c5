"""The Attention tab in a browser: its grid lies right, its script shows the traced numbers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from app.attention_data import look
from app.example_photos import FOLDER
from app.page import Page as ViTScope
from explainers import Photo, explain, load_photo, wrap_model
from explainers.trace import Trace
from explainers.views.heads import head_figures
from tests.attention_board import LION, board, place, planted, shown
from tests.tiny import LABELS, RECTANGLE, tiny_vit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[ViTScope, str]]:
    """The page with the embedded model and a small one of a 3×5 grid and registers."""
    page = ViTScope()
    page.warm()
    small = wrap_model(tiny_vit(size=RECTANGLE, reg_tokens=2), labels=LABELS, name="small-one")
    page.studio.models.add("small-one", small)
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield page, url
    page.demo.close()


def traced(server: tuple[ViTScope, str], model: str, photo: Photo | Path = LION) -> Trace:
    vit = server[0].studio.models.ready(model)
    assert vit is not None
    return vit.trace(load_photo(photo))


@pytest.mark.browser
@pytest.mark.long
def test_hover_shows_the_traced_row_without_asking_the_server(
    server: tuple[ViTScope, str], page: Page
) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    canvas = board(page, server[1])
    trace = traced(server, "embedded")
    (rows, columns), last = trace.grid, trace.depth - 1
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    mean = trace.attention(last).mean(0).numpy()
    line = page.locator("#vs-attention p.line")
    for row, column in ((0, 0), (3, 5), (rows - 1, columns - 1)):
        page.mouse.move(*place(page, canvas, trace, row, column))
        now = shown(page)
        token = trace.prefix + row * columns + column
        assert (now["token"], now["block"], now["head"]) == (token, last, "mean")
        np.testing.assert_allclose(now["values"], mean[token], atol=1e-3 * mean[token].max())
        assert sum(now["values"]) == pytest.approx(1, abs=2e-3)
        text = line.inner_text()
        assert f"patch in row {row + 1}, column {column + 1} looks " in text
        share = re.search(r"looks most .*, ([\d.]+)\u00a0% of .* in ([\d.]+)\u00a0% of", text)
        assert share is None or float(share[1]) > float(share[2])  # more than its even share
        assert (share is None) == ("looks about evenly over the photo" in text)
        peak = int(mean[token][trace.prefix :].argmax())
        assert f"patch in row {peak // columns + 1}, column {peak % columns + 1}:" in text
    assert asked == []
    page.get_by_role("radio", name="Who looks at it").click()
    page.mouse.move(*place(page, canvas, trace, 3, 5))
    now = shown(page)
    column_of = mean[:, now["token"]]
    np.testing.assert_allclose(now["values"], column_of, atol=1e-3 * column_of.max())
    assert "is looked at most" in line.inner_text()
    assert errors == []


@pytest.mark.browser
@pytest.mark.long
def test_keys_move_query_block_and_head(server: tuple[ViTScope, str], page: Page) -> None:
    canvas = board(page, server[1])
    trace = traced(server, "embedded")
    columns = trace.grid[1]
    assert shown(page)["token"] == 0  # CLS decides
    page.mouse.click(*place(page, canvas, trace, 4, 4))
    page.mouse.move(0, 0)
    start = trace.prefix + 4 * columns + 4
    assert shown(page)["token"] == start
    for key, token in (
        ("ArrowRight", start + 1),
        ("ArrowDown", start + 1 + columns),
        ("ArrowLeft", start + columns),
        ("ArrowUp", start),
    ):
        page.keyboard.press(key)
        assert shown(page)["token"] == token
    page.keyboard.press("h")
    page.keyboard.press("h")
    page.keyboard.press("-")
    page.wait_for_function(
        "() => document.querySelector('#vs-attention .vs-board').shown()?.block === 10"
    )
    now = shown(page)
    assert now["head"] == 0
    row = trace.attention(10, 0, rows=[start])[0].numpy()
    np.testing.assert_allclose(now["values"], row, atol=1e-3 * row.max())
    page.keyboard.press("+")
    page.wait_for_function(
        "() => document.querySelector('#vs-attention .vs-board').shown()?.block === 11"
    )
    page.locator("#vs-attention .head select").select_option("rolled")
    rolled = explain("rollout", trace, row=start)
    values = np.asarray(shown(page)["values"])[trace.prefix :].reshape(trace.grid)
    np.testing.assert_allclose(values, rolled.values, atol=1e-3 * rolled.values.max())  # type: ignore[union-attr]
    chip = page.locator("#vs-attention .chips button").first
    chip.click()
    assert chip.get_attribute("aria-pressed") == "true"
    assert "%" in chip.inner_text()
    grid = page.locator("#vs-attention canvas.grid")
    box = grid.bounding_box()
    assert box is not None
    grid.click(position={"x": box["width"] - 20, "y": 30})
    page.wait_for_function(
        "() => document.querySelector('#vs-attention .vs-board').shown()?.block === 0"
    )
    assert shown(page)["head"] == trace.heads - 1


@pytest.mark.browser
@pytest.mark.long
def test_dots_open_heads_and_blocks_are_played_through(
    server: tuple[ViTScope, str], page: Page, tmp_path: Path
) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    canvas = board(page, server[1])
    trace = traced(server, "embedded")
    chart = page.locator("#vs-attention .dots[data-chart=distance] svg")
    assert chart.locator("circle:not(.ring)").count() == trace.depth * trace.heads
    dot = chart.locator("circle").nth(2 * trace.heads + 3)
    dot.hover()
    tip = page.locator("#vs-attention .dots[data-chart=distance] .tip")
    value = head_figures(trace).distance[2, 3]
    assert tip.inner_text() == f"block 2, head 3: {value:.1f} px"
    dot.click()
    page.wait_for_function("() => document.querySelector('.vs-board').shown()?.block === 2")
    assert shown(page)["head"] == 3
    page.locator("#vs-attention .dots[data-chart=entropy] svg").press("ArrowRight")
    assert (shown(page)["block"], shown(page)["head"]) == (3, 3)

    page.mouse.click(*place(page, canvas, trace, 4, 4))
    token = shown(page)["token"]
    rows = np.stack([trace.attention(b, 3, rows=[token])[0].numpy() for b in range(trace.depth)])
    limit = rows[:, trace.prefix :].max()
    play = page.locator("#vs-attention button.play")
    play.click()
    for block in (0, 4, trace.depth - 1):
        top = page.wait_for_function(
            "b => { const s = document.querySelector('.vs-board').shown();"
            " return s?.playing && s.block === b && s.limit; }",
            arg=block,
            polling=50,
        )
        assert top.json_value() == pytest.approx(limit, rel=1e-3)
    page.wait_for_function("() => !document.querySelector('.vs-board').shown().playing")
    play.click()
    page.wait_for_function("() => document.querySelector('.vs-board').shown().playing")
    canvas.click()
    assert not shown(page)["playing"]

    page.emulate_media(reduced_motion="reduce")
    play.click()
    page.wait_for_function("() => document.querySelector('.vs-board').shown().playing")
    page.wait_for_timeout(1500)
    assert shown(page)["block"] == 0
    play.click()
    assert shown(page)["block"] == 1
    with page.expect_download() as waiting:
        page.get_by_role("button", name="GIF").click()
    waiting.value.save_as(tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == trace.depth  # type: ignore[attr-defined]
    assert errors == []


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.parametrize("zoom", [0.8, 1.25, 2.0])
def test_corners_and_a_planted_peak_at_every_zoom(
    server: tuple[ViTScope, str], browser: Browser, zoom: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zooming makes CSS pixels larger: fewer of them in the window, more device pixels each."""
    row, column = 1, 3
    monkeypatch.setattr(
        "app.attention_events.look", lambda trace: look(planted(trace, row, column))
    )
    window: Any = {"width": round(1280 / zoom), "height": round(900 / zoom)}
    context = browser.new_context(locale="en-US", viewport=window, device_scale_factor=zoom)
    page = context.new_page()
    photo = FOLDER / "koala.jpg"
    canvas = board(page, server[1], photo, "small-one")
    trace = traced(server, "small-one", photo)
    (rows, columns), p = trace.grid, trace.prefix
    for r, c, at in (
        (0, 0, 0.02),
        (0, columns - 1, 0.98),
        (rows - 1, 0, 0.03),
        (rows - 1, columns - 1, 0.98),
    ):
        page.mouse.move(*place(page, canvas, trace, r, c, at))
        assert shown(page)["token"] == p + r * columns + c
    page.mouse.move(0, 0)
    page.locator("#vs-attention .opacity input").fill("100")
    assert np.argmax(shown(page)["values"]) == p + row * columns + column
    brightest = canvas.evaluate(
        """(canvas) => {  // the centre of the pure yellow that ends the scale
          const {data, width, height} = Object.assign(
            canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height));
          let n = 0, x = 0, y = 0;
          for (let i = 0; i < data.length; i += 4) {
            if (data[i] < 250 || data[i + 1] < 225 || data[i + 2] > 45) continue;
            n += 1; x += (i / 4) % width; y += Math.floor(i / 4 / width);
          }
          return [x / n / width, y / n / height];
        }"""
    )
    left, top, right, bottom = trace.geometry.cell_box(row, column)
    height, width = trace.geometry.photo_size
    assert brightest[0] == pytest.approx((left + right) / 2 / width, abs=0.01)
    assert brightest[1] == pytest.approx((top + bottom) / 2 / height, abs=0.01)
    context.close()


@pytest.mark.browser
@pytest.mark.long
def test_another_photo_and_an_expired_key_are_shown_anew(
    server: tuple[ViTScope, str], page: Page
) -> None:
    board(page, server[1])
    line = page.locator("#vs-attention p.line")
    before = line.inner_text()
    page.set_input_files("#vs-photo input[type=file]", FOLDER / "koala.jpg")
    page.wait_for_function(
        "old => { const b = document.querySelector('#vs-attention .vs-board');"
        " return b.shown() && b.shadowRoot.querySelector('.line').textContent !== old; }",
        arg=before,
    )
    time.sleep(5.1)
    for desk in server[0].studio.desks.all():
        server[0].studio.store.drop(desk.owner)
    page.locator("#vs-attention .block button").first.click()
    page.wait_for_function(
        "() => document.querySelector('#vs-attention .vs-board').shown()?.block === 10"
    )
    page.locator("#vs-lang input").click()
    page.get_by_role("option", name="中文").click()
    page.locator("#vs-attention p.line", has_text="看得最多的是").wait_for()
    page.locator("#vs-photo .icon-button-wrapper button").last.click()
    page.locator("#vs-attention .message.empty").wait_for()
