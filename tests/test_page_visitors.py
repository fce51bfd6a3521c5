"""Visitors of the page who go on, cancel, leave, or come all at once."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.explaining import Ended, Mapped, Working, explaining
from app.scene import Display, Request
from app.studio import Studio
from explainers import explain, load_photo, methods
from tests.small_page import ask, maps, photo_file, slow, studio
from tests.tiny import tiny_photo_array


def test_a_visitor_who_goes_on_outdates_the_earlier_request(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.05)
    desk = studio.desks.of("a")
    first = explaining(studio, desk, ask(photo_file, ("occlusion", "smoothgrad")))
    seen = next(event for event in first if isinstance(event, Working) and event.share > 0)
    assert seen.what in ("occlusion", "smoothgrad")
    old = desk.job
    second = list(explaining(studio, desk, ask(photo_file, ("rollout",))))
    assert isinstance(second[-1], Ended)
    assert old is not None
    assert old.stopped
    assert not [event for event in first if isinstance(event, (Mapped, Ended))]


def test_drawing_anew_does_not_disturb_work_under_way(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch)
    desk = studio.desks.of("a")
    request = ask(photo_file, ("smoothgrad",))
    first = explaining(studio, desk, request)
    next(event for event in first if isinstance(event, Working) and event.share > 0)
    job = desk.job
    drawn = Request(request.scene, request.methods, display=Display(opacity=0.2))
    second = list(explaining(studio, desk, drawn))
    assert desk.job is job
    assert job is not None
    assert not job.stopped
    assert len(maps(second)) == 1


def test_cancel_stops_within_a_second_and_keeps_what_is_ready(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.05)
    desk, events = studio.desks.of("a"), []
    request = ask(photo_file, ("rollout", "occlusion"), parameters={"occlusion": {"window": 1}})
    for event in explaining(studio, desk, request):
        events.append(event)
        if isinstance(event, Working) and event.what == "occlusion":
            pressed = time.monotonic()
            desk.stop()
    assert time.monotonic() - pressed < 1
    assert events[-1] == Ended(stopped=True)
    assert list(maps(events)) == ["rollout"]
    assert desk.job is not None
    assert desk.job.wait(10)
    monkeypatch.undo()
    assert len(maps(list(explaining(studio, desk, request)))) == 2  # it can go on


def test_a_visitor_who_leaves_stops_the_work_and_is_forgotten(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.05)
    desk = studio.desks.of("a")
    events = explaining(studio, desk, ask(photo_file, ("smoothgrad",)))
    next(event for event in events if isinstance(event, Working) and event.share > 0)
    studio.desks.leave("a")
    assert desk.job is not None
    assert desk.job.wait(10)
    assert not desk.folder.exists()
    assert studio.store.bytes == 0


def test_many_visitors_at_once_get_the_serial_answers(studio: Studio, tmp_path: Path) -> None:
    wanted = []
    for number in range(8):
        path = tmp_path / f"{number}.png"
        Image.fromarray(tiny_photo_array(seed=number)).save(path)
        wanted.append(ask(path, model=("one", "two")[number % 2], target=number % 5))
    found: dict[int, dict[str, Any]] = {}

    def visit(number: int) -> None:
        desk = studio.desks.of(str(number))
        found[number] = maps(list(explaining(studio, desk, wanted[number])))

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, request in enumerate(wanted):
        vit = studio.models.ready(request.scene.model)
        assert vit is not None
        assert request.scene.photo is not None
        trace = vit.trace(load_photo(request.scene.photo))
        for name, heat in found[number].items():
            target = request.scene.target if methods()[name].class_specific else None
            assert np.array_equal(heat.values, explain(name, trace, target=target).values)
        assert len(found[number]) == 4
