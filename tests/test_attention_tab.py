"""The Attention tab: its numbers are the library's, its grid lies right, its script shows both."""

from __future__ import annotations

import base64
import copy
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from PIL import Image

from app import attention_answers, attention_tab
from app.attention_answers import Looks
from app.attention_data import DECISION, Look, look
from app.attention_events import filmed, making
from app.attention_run import maps, run
from app.example_photos import FOLDER
from app.page import Page as ViTScope
from app.scene import Scene
from app.studio import Studio
from explainers import Photo, PhotoError, VisionModel, explain, load_photo, wrap_model
from explainers.trace import Trace
from explainers.views.heads import head_figures
from tests.tiny import LABELS, RECTANGLE, VARIANTS, tiny_photo_array, tiny_vit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

PHOTO = load_photo(tiny_photo_array())
LION = FOLDER / "lion.jpg"
PATIENCE = 45_000
N_TOO_MANY = 10**6


def refuse(name: str, report: object, download: bool) -> VisionModel:
    raise AssertionError(f"{name} should not be loaded")


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "cache"))
    studio = Studio(refuse, "one")
    studio.models.add("one", wrap_model(tiny_vit(), labels=LABELS, name="one"))
    return studio


@pytest.fixture
def looks(studio: Studio) -> Looks:
    return Looks(studio)


def asker(looks: Looks, found: Look) -> Any:
    """Ask as the page does: ``ask("block", block=1)`` → the whole answer."""
    looks.put("visitor", "look", found)
    functions = {function.__name__: function for function in looks.functions()}

    def ask(name: str, **fields: Any) -> dict[str, Any]:
        return functions[f"attention_{name}"]({"key": found.key, **fields})

    return ask


def numbers(answer: dict[str, Any], shape: tuple[int, ...], field: str = "data") -> np.ndarray:
    assert answer["ok"], answer
    return np.frombuffer(base64.b64decode(answer[field]), "<f2").reshape(shape)


def planted(trace: Trace, row: int, column: int) -> Trace:
    """The trace with every token of every head looking at one patch alone."""
    token = trace.prefix + row * trace.grid[1] + column
    calls = []
    for call in trace.calls:
        q, k = torch.zeros_like(call.q), torch.zeros_like(call.k)
        q[..., 0], k[..., token, 0] = 100 / call.scale, 1
        calls.append(replace(call, q=q, k=k))
    changed = copy.copy(trace)
    changed.calls = tuple(calls)
    return changed


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_page_gets_the_traced_rows(looks: Looks, variant: str) -> None:
    trace = wrap_model(tiny_vit(**VARIANTS[variant])).trace(PHOTO)
    found = look(trace)
    ask, N, H = asker(looks, found), trace.tokens, trace.heads
    facts = found.facts()
    assert len(facts["prefix"]) == trace.prefix
    assert facts["grid"] == list(trace.grid)
    assert facts["whole"] is True
    for block in range(trace.depth):
        whole = numbers(ask("block", block=block), (H + 1, N, N))
        np.testing.assert_allclose(whole[:H], trace.attention(block), rtol=1e-3, atol=1e-7)
        for token in (0, N - 1):
            row = numbers(ask("token", block=block, token=token, who=False), (H + 1, N))
            column = numbers(ask("token", block=block, token=token, who=True), (H + 1, N))
            np.testing.assert_allclose(row, whole[:, token], rtol=1e-3)
            np.testing.assert_allclose(column, whole[:, :, token], rtol=1e-3)
            grid = numbers(ask("grid", token=token, first=block, last=block), (1, H, N))
            np.testing.assert_allclose(grid[0], whole[:H, token], rtol=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_decides_and_the_rollout_are_the_librarys_maps(looks: Looks, variant: str) -> None:
    trace = wrap_model(tiny_vit(**VARIANTS[variant])).trace(PHOTO)
    found = look(trace)
    ask, N, H, p = asker(looks, found), trace.tokens, trace.heads, trace.prefix
    last = trace.depth - 1
    rows = numbers(ask("grid", token=found.start, first=0, last=last), (trace.depth, H, N))
    for block, head in ((0, 0), (last, H - 1)):
        heat = explain("attention", trace, block=block, head=head)
        assert isinstance(heat.values, np.ndarray)  # type: ignore[union-attr]
        np.testing.assert_allclose(rows[block, head, p:], heat.values.ravel(), atol=5e-4)  # type: ignore[union-attr]
    answer = ask("block", block=last)
    planes = numbers(answer, (H + 1, N, N))
    for row in (0, N - 1):
        heat = explain("rollout", trace, row=row)
        np.testing.assert_allclose(planes[H, row, p:], heat.values.ravel(), atol=5e-4)  # type: ignore[union-attr]
    rolled = (
        numbers(answer, (N,), "decision") if found.start == DECISION else planes[H, found.start]
    )
    heat = explain("rollout", trace)
    np.testing.assert_allclose(rolled[p:], heat.values.ravel(), atol=5e-4)  # type: ignore[union-attr]


def test_a_planted_peak_lies_where_it_was_planted(looks: Looks) -> None:
    trace = wrap_model(tiny_vit(size=RECTANGLE, reg_tokens=2)).trace(PHOTO)
    rows, columns = trace.grid
    for row, column in ((0, 0), (0, columns - 1), (rows - 1, 0), (1, 3)):
        found = look(planted(trace, row, column))
        planes = numbers(asker(looks, found)("block", block=1), (3, trace.tokens, trace.tokens))
        peak = planes[0, 0, trace.prefix :].reshape(rows, columns).argmax()
        assert np.unravel_index(peak, (rows, columns)) == (row, column)
    left, top, right, bottom = found.facts()["frame"]
    assert (left, top) == trace.geometry.cell_box(0, 0)[:2]
    assert (right, bottom) == trace.geometry.cell_box(rows - 1, columns - 1)[2:]


def test_a_large_grid_gets_its_rows_one_by_one(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.attention_data.WHOLE", 1000)
    monkeypatch.setattr("app.attention_data.ROLLED_TOKENS", 5)
    monkeypatch.setattr(attention_answers, "WHOLE", 1000)
    trace = wrap_model(tiny_vit()).trace(PHOTO)
    found = look(trace)
    ask = asker(looks, found)
    assert found.facts()["whole"] is found.facts()["rolled"] is False
    assert ask("block", block=0) == {"ok": False, "error": "wrong"}
    column = numbers(ask("token", block=1, token=4, who=True), (2, trace.tokens))
    np.testing.assert_allclose(column, trace.attention(1)[:, :, 4], rtol=1e-3, atol=1e-7)
    with found.heavy:
        assert ask("token", block=1, token=4, who=True)["error"] == "busy"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_through_the_blocks_is_the_librarys_maps(looks: Looks, variant: str) -> None:
    trace = wrap_model(tiny_vit(**VARIANTS[variant])).trace(PHOTO)
    found, N = look(trace), trace.tokens
    ask = asker(looks, found)
    for token in {found.start, 0, N - 1}:
        row = {} if token == DECISION else {"row": token}
        for head in ("mean", 1):
            answer = ask("blocks", token=token, head=head)
            sent = numbers(answer, (trace.depth, N))
            exact = run(found, token, head, False)
            np.testing.assert_allclose(sent, exact, atol=5e-4)
            for block, heat in enumerate(maps(found, exact)):
                expected: Any = explain("attention", trace, block=block, head=head, **row)
                np.testing.assert_allclose(heat.values, expected.values, atol=1e-6)
            assert answer["limit"] == exact[:, trace.prefix :].max()
        rolled = numbers(ask("blocks", token=token, head="rolled"), (trace.depth, N))
        top: Any = explain("rollout", trace, **row)
        np.testing.assert_allclose(rolled[-1, trace.prefix :], top.values.ravel(), atol=5e-4)
        if token != DECISION:
            for head in (0, "mean", "rolled"):
                column = numbers(ask("blocks", token=token, head=head, who=True), (trace.depth, N))
                for block in range(trace.depth):
                    whole = numbers(ask("block", block=block), (trace.heads + 1, N, N))
                    planes = {"mean": whole[:-1].astype(float).mean(0), "rolled": whole[-1]}
                    slow = planes.get(head, whole[0])[:, token]  # type: ignore[call-overload]
                    np.testing.assert_allclose(column[block], slow, atol=5e-4)


def test_a_moving_picture_has_a_frame_a_block_on_one_scale(
    studio: Studio, looks: Looks, tmp_path: Path
) -> None:
    trace = wrap_model(tiny_vit(size=RECTANGLE)).trace(PHOTO)
    found = look(trace)
    looks.put("visitor", "look", found)
    desk = studio.desks.of("visitor")
    asked = {"key": found.key, "token": 3, "head": 1, "who": False, "kind": "webp"}
    path = filmed(looks, desk, asked)
    assert path is not None
    assert path.parent.parent == desk.folder
    heats: list[Any] = [
        explain("attention", trace, block=b, head=1, row=3) for b in range(trace.depth)
    ]
    limit = max(float(heat.values.max()) for heat in heats)
    with Image.open(path) as film:
        assert film.n_frames == trace.depth  # type: ignore[attr-defined]
        for number, heat in enumerate(heats):
            film.seek(number)
            expected = np.asarray(heat.overlay(limit=limit, width=film.width))
            assert np.array_equal(np.asarray(film.convert("RGB"))[: len(expected)], expected)
    for wrong in ({"key": "x"}, {"token": N_TOO_MANY}, {"head": "max"}, {"head": 2}, {"token": -2}):
        assert filmed(looks, desk, {**asked, **wrong}) is None
    with pytest.raises(ValueError, match="gif, webp"):
        filmed(looks, desk, {**asked, "kind": "../x"})


def test_questions_are_checked_and_expire(looks: Looks) -> None:
    found = look(wrap_model(tiny_vit()).trace(PHOTO))
    ask = asker(looks, found)
    for name, fields in (
        ("block", {"block": 3}),
        ("block", {"block": -1}),
        ("block", {"block": True}),
        ("block", {"block": "0"}),
        ("block", {}),
        ("token", {"block": 0, "token": 17}),
        ("grid", {"token": 0, "first": 2, "last": 1}),
        ("grid", {"token": -2, "first": 0, "last": 1}),
        ("blocks", {"token": 0, "head": 2}),
        ("blocks", {"token": 0, "head": None}),
        ("blocks", {"token": DECISION, "head": "mean", "who": True}),
    ):
        assert ask(name, **fields) == {"ok": False, "error": "wrong"}, (name, fields)
    for function in looks.functions():
        assert function([1])["error"] == "wrong"
        assert function({"key": "x"})["error"] == "expired"
        assert function({"key": [found.key]})["error"] == "expired"
    looks.studio.store.drop("visitor")
    assert ask("block", block=0) == {"ok": False, "error": "expired"}


def test_a_look_is_made_once_and_traced_once(
    looks: Looks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "photo.png"
    Image.fromarray(tiny_photo_array()).save(path)
    desk = looks.studio.desks.of("a")
    assert list(making(looks, desk, Scene(model="one"))) == [None]
    (first,) = [s for s in making(looks, desk, Scene(str(path), "one")) if isinstance(s, Look)]
    assert list(making(looks, desk, Scene(str(path), "one", target=2))) == [first]
    assert first.nbytes > first.decision.nbytes  # type: ignore[union-attr]
    with pytest.raises(PhotoError):
        list(making(looks, desk, Scene(str(tmp_path / "gone.png"), "one")))
    looks.studio.desks.leave("a")
    assert looks.find(first.key) is None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_tab_is_told_in_words(studio: Studio, looks: Looks, lang: str) -> None:
    tab = ViTScope()._attention
    found = look(wrap_model(tiny_vit(reg_tokens=2)).trace(PHOTO))
    for updates in (
        attention_tab.empty(lang),
        attention_tab.waiting(lang),
        attention_tab.refused("because"),
        attention_tab.ready(lang, found),
    ):
        assert len(updates) == len(tab.outputs())
    value = updates[0]
    assert value["facts"]["prefix"][1:] == (
        ["register 1", "register 2"] if lang == "en" else ["寄存器 1", "寄存器 2"]
    )
    script = attention_tab.script()
    for key in attention_tab.TEXTS:
        assert f"'{key}'" in script, key
    assert all(value["texts"][chart] for chart in ("distance", "entropy"))
    assert np.allclose(value["facts"]["distance"], found.figures.distance, atol=0.005)
    assert np.allclose(value["facts"]["entropy"], found.figures.entropy, atol=5e-5)


def test_a_model_whose_attention_is_not_read_says_why() -> None:
    vit = wrap_model(tiny_vit())
    trace = vit.trace(PHOTO)
    reason = attention_tab.say("en", "unexpected")
    vit.attention_check = type(vit.attention_check)(False, reason)  # type: ignore[misc,arg-type]
    with pytest.raises(ValueError, match="Something went wrong"):
        look(trace)


# -- in a browser --------------------------------------------------------------------------------


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


def board(page: Page, url: str, photo: Path = LION, model: str | None = None) -> Locator:
    """Open the tab on a photo and wait for its numbers; the canvas with the photo."""
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    if model is not None:
        field = page.locator("#vs-model input")
        field.click()
        field.fill(model)
        field.press("Enter")
        page.get_by_text("5 classes").wait_for()
    page.set_input_files("#vs-photo input[type=file]", photo)
    page.get_by_role("tab", name="Attention", exact=True).click()
    page.wait_for_function("() => document.querySelector('#vs-attention .vs-board')?.shown?.()")
    canvas = page.locator("#vs-attention canvas.photo")
    canvas.scroll_into_view_if_needed()
    page.wait_for_timeout(300)  # the charts below have come, nothing moves any more
    return canvas


def shown(page: Page) -> dict[str, Any]:
    """What the board shows two frames from now, or once rows that it has asked for are there."""
    return page.evaluate(
        """() => new Promise(done => {
          const look = () => {
            const now = document.querySelector('#vs-attention .vs-board').shown();
            if (now) done({...now, values: Array.from(now.values)});
            else requestAnimationFrame(look);
          };
          requestAnimationFrame(() => requestAnimationFrame(look));
        })"""
    )


def place(page: Page, canvas: Locator, trace: Trace, row: int, column: int, at: float = 0.5) -> Any:
    """The point in the window (x, y) that lies in a patch, ``at`` from its left and top."""
    box = canvas.bounding_box()
    assert box is not None
    left, top, right, bottom = trace.geometry.cell_box(row, column)
    height, width = trace.geometry.photo_size
    x = box["x"] + (left + at * (right - left)) * box["width"] / width
    return x, box["y"] + (top + at * (bottom - top)) * box["height"] / height


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
