"""The Anatomy tab: what it writes is the traced tensors, for every family and language."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from app import anatomy_tab
from app.anatomy_events import drawing, known
from app.anatomy_pieces import View
from app.anatomy_shown import MAKE, patch_at, ready, view
from app.anatomy_tab import AnatomyTab, message
from app.scene import Scene
from app.studio import Studio
from explainers import PhotoError, VisionModel, load_photo, wrap_model
from explainers.models.vit import VisionTransformer
from explainers.render.strips import OTHER, class_colours, on_picture, picture_size, strip
from explainers.views.anatomy import Anatomy
from explainers.views.steps import STEPS
from tests.tiny import LABELS, RECTANGLE, SQUARE, tiny_encoder, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
VECTOR = re.compile(
    r"data-key='([\w.]+)' data-index='([\d,]*)'.*?<p class='vs-numbers'>([^<]*)</p>", re.DOTALL
)
SHAPE = re.compile(r"<code data-shape='([\w.]+)'>[^<]*</code> ([\d ×]+)")


def models() -> dict[str, VisionModel]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        relative = VisionTransformer(16, 4, 16, 3, 2, 32, 5, positions="relative").double().eval()
    makers: dict[str, Any] = {
        "plain": tiny_vit(),
        "registers": tiny_vit(size=RECTANGLE, reg_tokens=2),
        "distilled": tiny_vit(distilled=True),
        "average": tiny_vit(global_pool="avg", class_token=False),
        "map": tiny_vit(global_pool="map", class_token=False),
        "pre_norm": tiny_vit(pre_norm=True, init_values=0.1),
        "headless": tiny_vit(num_classes=0),
        "relative": relative,
    }
    found = {
        name: wrap_model(module, labels=None if name == "headless" else LABELS)
        for name, module in makers.items()
    }
    found["post_norm"] = wrap_model(tiny_encoder(norm_first=False), size=SQUARE)
    return found


MODELS = models()


def updates(name: str, step: str, lang: str = "en", chosen: Any = (2, 3, 1, 1, "0")) -> list[Any]:
    return ready(lang, Anatomy(MODELS[name].trace(PHOTO)), step, chosen)


@pytest.mark.parametrize("name", MODELS)
def test_every_number_is_the_traced_tensors(name: str) -> None:
    anatomy = Anatomy(MODELS[name].trace(PHOTO))
    for step in STEPS:
        for asks in ("patch", "0"):
            html = ready("en", anatomy, step, (2, 3, 1, 1, asks))[13]
            support = anatomy.support(step)
            vectors = VECTOR.findall(html)
            if not support:
                assert "vs-refused" in html, step
                assert not vectors
                continue
            assert vectors or step in ("photo", "blocks"), step
            for key, index, numbers in vectors:
                tensor = anatomy.tensor(key)
                row = tensor[tuple(int(i) for i in index.split(",") if i)]
                written = [float(n.replace("−", "-")) for n in re.findall(r"−?[\d.]+", numbers)]
                assert written == [round(float(v), 3) + 0.0 for v in row[: len(written)]], key
                assert len(written) == min(6, len(row))
            for key, shape in SHAPE.findall(html):
                assert [int(n) for n in shape.split(" × ")] == list(anatomy.tensor(key).shape), key


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", MODELS)
def test_every_step_is_told_in_words(name: str, lang: str) -> None:
    for step in STEPS:
        found = updates(name, step, lang)
        assert (found[0]["state"], found[0]["step"]) == ("ready", step)
        assert found[3]["alt_text"]
        for text in (found[4], found[11], found[13], found[14], found[15]):
            assert "{" not in re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    outputs = len(updates(name, "photo"))
    assert outputs == len(message("empty", "x")) == 16


def test_the_last_step_writes_the_models_answer() -> None:
    html = updates("plain", "logits")[13]
    trace = MODELS["plain"].trace(PHOTO)
    for index, label, share in trace.top(5):
        assert label.split(",")[0] in html
        assert f"{100 * share:.1f} %" in html
        assert f"{float(trace.logits[0, index]):.3f}".replace("-", "−") in html  # type: ignore[index]


def test_worked_numbers_add_up() -> None:
    worked = updates("plain", "positions", chosen=(2, 3, 1, 1, "patch"))[14]
    matrices = [
        np.array([[float(n) for n in row.split("&")] for row in inside.split(r"\\")])
        for inside in re.findall(r"\\begin{bmatrix}(.*?)\\end{bmatrix}", worked)
    ]
    before, added, after = matrices
    assert before.shape == (2, 2)
    np.testing.assert_allclose(before + added, after, atol=2e-3)
    worked = updates("plain", "scores", chosen=(2, 3, 1, 1, "patch"))[14]
    dots, scores = re.findall(r"\\begin{bmatrix}(.*?)\\end{bmatrix}", worked)
    first = float(dots.split("&")[0]) / 8**0.5
    assert float(scores.split("&")[0]) == pytest.approx(first, abs=2e-3)
    anatomy = Anatomy(MODELS["plain"].trace(PHOTO))
    token = 1 + 1 * 4 + 2
    assert float(scores.split("&")[0]) == pytest.approx(
        float(anatomy.scores(1, 1, token)[token]), abs=1e-3
    )


def test_what_differs_is_said() -> None:
    def notes(name: str, step: str) -> str:
        return str(updates(name, step)[15]) + str(updates(name, step)[13])

    assert "2 registers" in notes("registers", "prefix")
    assert "DIST" in notes("distilled", "prefix")
    assert "two heads" in notes("distilled", "head")
    assert "no token in front" in notes("average", "prefix")
    assert "mean of all patches" in notes("average", "head")
    assert "attention pool" in notes("map", "blocks")
    assert "one more LayerNorm" in notes("pre_norm", "positions")
    assert "LayerScale" in notes("pre_norm", "merge")
    assert "adds nothing here" in notes("relative", "positions")
    assert "bias" in notes("relative", "scores")
    assert "no classification head" in notes("headless", "logits")
    assert "no norm" in notes("post_norm", "norm")


def test_anything_may_be_sent() -> None:
    anatomy = Anatomy(MODELS["registers"].trace(PHOTO))
    rows, columns = anatomy.trace.grid
    for chosen in (
        (None, None, None, None, None),
        (99, -5, 99, 99, "99"),
        (0, 0, 0, 0, "patch"),
        ("x", [1], {}, float("nan"), 3),
        (2.9, "2", float("inf"), True, "../../x"),
    ):
        now = view("en", anatomy, *chosen)
        assert 0 <= now.row < rows
        assert 0 <= now.column < columns
        assert 0 <= now.block < 3
        assert 0 <= now.head < 2
        assert now.asks == "patch"
    assert ready("en", anatomy, "nonsense", (1, 1, 0, 0, "1"))[0]["step"] == "photo"
    width, height = picture_size((rows, columns))
    assert patch_at(anatomy, width - 1, 0) == (1, columns)
    assert patch_at(anatomy, 0, height - 1) == (rows, 1)
    assert patch_at(anatomy, -3, 10**9) == (rows, 1)


def test_names_of_classes_are_text() -> None:
    labels = ("<img src=x onerror=alert(1)>", *LABELS[1:4], "$x$ & y")
    anatomy = Anatomy(wrap_model(tiny_vit(), labels=labels).trace(PHOTO))
    for step in ("blocks", "head", "logits"):
        found = ready("en", anatomy, step, (1, 1, 0, 0, "patch"))
        for text in found[4:]:
            assert "<img src=x" not in str(text)


def test_pictures_lie_right() -> None:
    picture = np.zeros((8, 12, 3), np.uint8)
    cells = np.zeros((2, 3, 3), np.uint8)
    cells[1, 2] = 255
    drawn = np.asarray(on_picture(picture, (2, 3), cells=cells, alpha=1, lines=False, side=30))
    assert drawn.shape == (20, 30, 3)
    assert drawn[10:, 20:].min() == 255
    assert drawn[:10].max() == drawn[:, :20].max() == 0
    framed = np.asarray(on_picture(picture, (2, 3), chosen=(0, 1), side=300))
    assert framed[50, 99].tolist() == [255, 214, 0]
    colours = strip(np.array([-1.0, 0.0, 1.0]))[0].astype(int)
    assert colours[0, 2] > colours[0, 0]  # blue below zero
    assert colours[2, 0] > colours[2, 2]  # red above
    assert np.ptp(colours[1]) < 4
    assert strip(np.zeros(4)).shape == (1, 4, 3)
    cells, named = class_colours(np.array([[1, 1, 2], [7, 1, 2]]), count=2)
    assert named == [1, 2]
    assert tuple(cells[1, 0]) == OTHER


def refuse(name: str, report: object, download: bool) -> VisionModel:
    raise AssertionError(f"{name} should not be loaded")


def test_a_photo_is_read_once_and_the_tab_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "cache"))
    studio = Studio(refuse, "one")
    studio.models.add("one", MODELS["plain"])
    desk = studio.desks.of("a")
    path = tmp_path / "photo.png"
    Image.fromarray(tiny_photo_array()).save(path)
    chosen = (None, None, None, None, None)
    (empty,) = drawing(studio, desk, "en", Scene(model="one"), "norm", chosen)
    assert empty[0]["state"] == "empty"
    scene = Scene(str(path), "one")
    assert known(studio, desk, scene) is None
    *_, drawn = drawing(studio, desk, "zh", scene, "norm", chosen)
    assert drawn[0]["step"] == "norm"
    first = known(studio, desk, scene)
    assert first is not None
    list(drawing(studio, desk, "en", scene, "mlp", chosen))
    assert known(studio, desk, scene) is first
    with pytest.raises(PhotoError):
        list(drawing(studio, desk, "en", Scene(str(tmp_path / "x.png"), "one"), "mlp", chosen))


def test_every_step_has_its_drawing_and_the_tab_its_widgets() -> None:
    assert {*MAKE} == {*STEPS}
    assert AnatomyTab.__dataclass_fields__.keys() >= {"picture", "worked"}
    assert View.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "renew" in anatomy_tab.SCRIPT.read_text(encoding="utf-8")
