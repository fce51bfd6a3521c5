"""The page without a browser: two small models, a photo, requests and what the widgets get."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from app.explaining import Event, Mapped, explaining
from app.page import Page
from app.scene import Request, Scene
from app.showing import Showing
from app.studio import Studio
from explainers import VisionModel, wrap_model
from tests.tiny import LABELS, tiny_photo_array, tiny_vit

QUICK = ("attention", "rollout", "saliency", "input_x_gradient")


def refuse(name: str, report: object, download: bool) -> VisionModel:
    raise AssertionError(f"{name} should not be loaded")


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    """A page's services with two small models, "one" and "two", ready."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "cache"))
    studio = Studio(refuse, "one")
    for seed, name in enumerate(("one", "two")):
        studio.models.add(name, wrap_model(tiny_vit(seed=seed), labels=LABELS, name=name))
    return studio


@pytest.fixture
def photo_file(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.fromarray(tiny_photo_array()).save(path)
    return path


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one, the batch's size, whenever any model runs."""
    counted: list[int] = []
    original = VisionModel.logits

    def logits(self: VisionModel, pixels: Any, *more: Any, **options: Any) -> Any:
        counted.append(len(pixels))
        return original(self, pixels, *more, **options)

    monkeypatch.setattr(VisionModel, "logits", logits)
    return counted


def ask(photo: Path, names: tuple[str, ...] = QUICK, **options: Any) -> Request:
    parameters = options.pop("parameters", {})
    scene = Scene(photo=str(photo), model=options.pop("model", "one"), **options)
    return Request(scene, names, parameters)


def maps(events: list[Event]) -> dict[str, Any]:
    return {event.name: event.heat for event in events if isinstance(event, Mapped)}


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.02) -> None:
    """Make every model run take longer."""
    original = VisionModel.logits

    def logits(self: VisionModel, *inputs: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return original(self, *inputs, **options)

    monkeypatch.setattr(VisionModel, "logits", logits)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page()


def shown(page: Page, studio: Studio, request: Request, lang: str = "en") -> Iterator[Any]:
    widgets, desk = page.widgets, studio.desks.of("a")
    showing = Showing(lang, request, studio, desk, widgets.chooser, widgets.tab, widgets.ranks)
    yield showing.begin()
    for event in explaining(studio, desk, request):
        yield showing.updates(event)


def merged(updates: Iterator[dict[Any, Any]]) -> dict[Any, Any]:
    """What the widgets show at last; every widget must be among the declared outputs."""
    state: dict[Any, Any] = {}
    for step in updates:
        for widget, update in step.items():
            if isinstance(update, dict):
                state[widget] = {**state.get(widget, {}), **update}
            else:
                state[widget] = update
    return state
