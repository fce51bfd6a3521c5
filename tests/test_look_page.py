"""The size of the look on the page: what it costs is told, all tabs' keys know it, no mixing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app import attention_events, handlers, look_control
from app.attention_answers import Looks
from app.attention_data import Look as AttentionLook
from app.explaining import Answered, Mapped, Refused, explaining
from app.look_events import fitting, look_of
from app.page import Page
from app.scene import Request, Scene, with_model
from app.studio import Studio
from explainers import ModelError, explain, load_photo
from explainers.look import Look
from tests.small_page import merged, photo_file, runs, shown, studio  # noqa: F401  (fixtures)

WHOLE, WINDOWS = Look("whole", 48), Look("windows", None)
NAMES = ("rollout", "saliency")


def ask(photo: Path, look: Look, names: tuple[str, ...] = NAMES, **scene: Any) -> Request:
    return Request(Scene(str(photo), "one", look=look, **scene), names)


def heats(events: list[Any]) -> dict[str, Any]:
    return {event.name: event.heat for event in events if isinstance(event, Mapped)}


def test_a_whole_look_is_the_librarys(studio: Studio, photo_file: Path) -> None:  # noqa: F811
    events = list(explaining(studio, studio.desks.of("a"), ask(photo_file, WHOLE)))
    vit, photo = studio.models.ready("one"), load_photo(photo_file)
    assert vit is not None
    trace = vit.whole(photo, 48).trace(photo)
    assert trace.grid == (8, 12)
    for name, heat in heats(events).items():
        expected: Any = explain(name, trace)
        assert np.array_equal(heat.values, expected.values)
        assert heat.provenance == expected.provenance


def test_windows_are_the_librarys(studio: Studio, photo_file: Path) -> None:  # noqa: F811
    desk = studio.desks.of("a")
    events = list(explaining(studio, desk, ask(photo_file, WINDOWS, (*NAMES, "feature_pca"))))
    vit, photo = studio.models.ready("one"), load_photo(photo_file)
    assert vit is not None
    looks = WINDOWS.windows(vit, photo)
    assert looks is not None
    found = heats(events)
    assert tuple(found) == NAMES
    for name, heat in found.items():
        assert np.array_equal(heat.values, looks.explain(name).values)
        assert len(heat.windows) == len(looks)
    (refused,) = [event for event in events if isinstance(event, Refused)]
    assert refused.reason is not None
    assert refused.reason.key == "windows_colours"
    answered = next(event for event in events if isinstance(event, Answered))
    assert answered.trace.grid == (4, 4)  # the list of classes is of the model's own look
    assert answered.target is None


def test_looks_do_not_mix_and_are_remembered(
    studio: Studio,  # noqa: F811
    photo_file: Path,  # noqa: F811
    runs: list[int],  # noqa: F811
) -> None:
    desk, shapes = studio.desks.of("a"), []
    for look in (Look(), WHOLE, WINDOWS, Look("whole", 32)):
        shapes.append(
            {
                heat.values.shape
                for heat in heats(
                    list(explaining(studio, desk, ask(photo_file, look, ("rollout",))))
                ).values()
            }
        )
    assert shapes[0] == {(4, 4)}
    assert shapes[1] == {(8, 12)}
    assert shapes[3] == {(5, 8)}
    count = len(runs)
    for look, shape in zip((Look(), WHOLE, WINDOWS), shapes, strict=False):
        request = ask(photo_file, look, ("rollout",))
        (heat,) = studio.remembered(desk, request) or []
        assert {heat.values.shape} == shape
        assert {h.values.shape for h in handlers.maps_of(studio, desk, request)} == shape
    assert len(runs) == count


def test_the_attention_tab_looks_as_chosen(studio: Studio, photo_file: Path) -> None:  # noqa: F811
    looks, desk = Looks(studio), studio.desks.of("a")

    def grid(look: Look) -> tuple[int, int]:
        scene = Scene(str(photo_file), "one", look=look)
        *_, found = attention_events.making(looks, desk, scene)
        assert isinstance(found, AttentionLook)
        return found.trace.grid

    assert grid(Look()) == (4, 4)
    assert grid(WHOLE) == (8, 12)
    assert grid(WINDOWS) == (4, 4)


def test_what_does_not_fit_is_refused_before_it_runs(
    studio: Studio,  # noqa: F811
    photo_file: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("explainers.memory_limit.free_bytes", lambda device: 100_000)
    with pytest.raises(ModelError, match="the largest that fits is a long side of"):
        list(explaining(studio, studio.desks.of("a"), ask(photo_file, Look("whole", 2048))))


def test_the_scene_keeps_its_look_with_another_model() -> None:
    scene = Scene("a", "one", 3, look=WHOLE)
    assert with_model(scene, "two").look == WHOLE
    assert len({Scene("a", "one", look=look).eye for look in (Look(), WHOLE, WINDOWS)}) == 3
    assert scene.eye == scene.single
    windows = replace(scene, look=WINDOWS)
    assert windows.single == "one"


def test_values_from_anywhere_make_a_look() -> None:
    assert look_of("own", 800) == look_of("other", None) == Look()
    assert look_of("whole", 800) == Look("whole", 800)
    assert look_of("windows", "x") == Look("windows", look_control.USUAL)
    assert fitting(10**9) == look_control.LONGEST
    assert fitting(-1) == look_control.SHORTEST
    assert fitting(801) == 800


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_cards_of_windows_say_what_they_are(
    studio: Studio,  # noqa: F811
    photo_file: Path,  # noqa: F811
    lang: str,
) -> None:
    page = Page()
    state = merged(shown(page, studio, ask(photo_file, WINDOWS), lang))
    card = page.widgets.tab.cards["saliency"]
    assert ("separate looks" if lang == "en" else "次独立查看") in state[card.text]
    assert state[card.test]["visible"] is False
    assert state[page.widgets.tab.glance]["visible"] is False


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_cost_is_told(studio: Studio, photo_file: Path, lang: str) -> None:  # noqa: F811
    vit, photo = studio.models.ready("one"), load_photo(photo_file)
    assert vit is not None
    for look in (Look(), WHOLE, WINDOWS):
        forecast = studio.forecast(vit, photo, Scene(str(photo_file), "one", look=look))
        text = look_control.told(lang, forecast, look)
        assert f"N = {forecast.tokens}" in text
        assert text.count("<p>") == (1 if look.kind == "own" else 2)
