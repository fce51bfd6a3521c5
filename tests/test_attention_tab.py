"""The Attention tab: its numbers are the library's, and it is told in words."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app import attention_answers, attention_tab
from app.attention_answers import Looks
from app.attention_data import DECISION, Look, look
from app.attention_events import filmed, making
from app.attention_run import maps, run
from app.page import Page as ViTScope
from app.scene import Scene
from app.studio import Studio
from explainers import PhotoError, VisionModel, explain, load_photo, wrap_model
from tests.attention_board import planted
from tests.tiny import LABELS, RECTANGLE, VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
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
