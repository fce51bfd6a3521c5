"""Requests to the page and their maps: the library's own, known ones not made again, refusals."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app import cards
from app.explaining import Answered, Ended, Refused, Working, explaining
from app.keys import trace_bytes
from app.studio import Studio
from explainers import PhotoError, explain, load_photo, methods, wrap_model
from explainers.models.labels import short
from tests.small_page import QUICK, ask, maps, photo_file, runs, studio
from tests.tiny import tiny_vit


def test_maps_are_the_librarys_own(studio: Studio, photo_file: Path) -> None:
    events = list(explaining(studio, studio.desks.of("a"), ask(photo_file, target=3, against=1)))
    vit = studio.models.ready("one")
    assert vit is not None
    trace = vit.trace(load_photo(photo_file))
    answered = next(event for event in events if isinstance(event, Answered))
    assert answered.trace.top(5) == trace.top(5)
    assert (answered.target, answered.against) == (3, 1)
    assert isinstance(events[-1], Ended)
    found = maps(events)
    assert tuple(found) == QUICK
    for name, heat in found.items():
        contrast = {"target": 3, "against": 1} if methods()[name].class_specific else {}
        expected = explain(name, trace, **contrast)
        assert np.array_equal(heat.values, expected.values)
        assert heat.provenance == expected.provenance


def test_a_card_says_what_is_scored_and_watched_with_a_contrast(
    studio: Studio, photo_file: Path
) -> None:
    vit = studio.models.ready("one")
    assert vit is not None
    trace = vit.trace(load_photo(photo_file))
    target, against = (short(vit.label(index)) for index in (3, 1))
    for name, score in (("saliency", "logit"), ("occlusion", "probability")):
        heat = explain(name, trace, target=3, against=1)
        text = html.unescape(cards.done("en", heat))
        assert f"The score here is the {score} of {target} minus that of {against}." in text
        assert f"removal below watches the probability of {target} alone." in text
        assert "The score here" not in cards.done("en", explain(name, trace, target=3))


def test_nothing_runs_again_that_is_known(
    studio: Studio, photo_file: Path, runs: list[int]
) -> None:
    desk = studio.desks.of("a")
    list(explaining(studio, desk, ask(photo_file, ("rollout", "saliency"))))
    assert runs == [1, 1]  # the trace, and the gradient pass
    more = list(explaining(studio, desk, ask(photo_file, QUICK)))
    assert len(maps(more)) == 4
    assert runs == [1, 1]  # a second gradient method shares the pass of the first
    again = list(explaining(studio, desk, ask(photo_file, QUICK)))
    assert not [event for event in again if isinstance(event, Working)]
    answered = next(event for event in again if isinstance(event, Answered))
    another = ((answered.target or 0) + 1) % 5
    other = list(explaining(studio, desk, ask(photo_file, QUICK, target=another)))
    assert runs == [1, 1, 1]
    assert maps(other)["rollout"] is maps(more)["rollout"]  # it is the same for every class
    assert not np.array_equal(maps(other)["saliency"].values, maps(more)["saliency"].values)


def test_a_refused_method_gives_its_reason_and_the_others_their_maps(
    studio: Studio, photo_file: Path
) -> None:
    studio.models.add("max", wrap_model(tiny_vit(global_pool="max", class_token=False)))
    events = list(explaining(studio, studio.desks.of("a"), ask(photo_file, model="max")))
    refused = {event.name: event.reason for event in events if isinstance(event, Refused)}
    assert list(maps(events)) == ["saliency", "input_x_gradient"] or refused
    assert refused["rollout"] is not None
    assert "max" in refused["rollout"]


def test_a_model_without_a_head_has_no_class(studio: Studio, photo_file: Path) -> None:
    studio.models.add("headless", wrap_model(tiny_vit(num_classes=0)))
    request = ask(photo_file, model="headless", target=3)
    events = list(explaining(studio, studio.desks.of("a"), request))
    answered = next(event for event in events if isinstance(event, Answered))
    assert answered.target is None
    refused = {event.name: event.reason for event in events if isinstance(event, Refused)}
    assert {*refused} == {"saliency", "input_x_gradient"}
    assert refused["saliency"].key == "no_head"
    assert {*maps(events)} == {"attention", "rollout"}


def test_a_fault_in_one_method_leaves_the_others_their_maps(
    studio: Studio,
    photo_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    original = explain

    def faulty(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "rollout":
            raise RuntimeError("/secret broke")
        return original(name, *args, **kwargs)

    monkeypatch.setattr("app.studio.explain", faulty)
    events = list(explaining(studio, studio.desks.of("a"), ask(photo_file)))
    assert [event.name for event in events if isinstance(event, Refused)] == ["rollout"]
    assert [event.reason for event in events if isinstance(event, Refused)] == [None]
    assert len(maps(events)) == 3
    assert "/secret broke" in caplog.text


def test_a_wrong_setting_is_said_on_its_card(studio: Studio, photo_file: Path) -> None:
    request = ask(photo_file, ("attention", "rollout"), parameters={"attention": {"block": 99}})
    events = list(explaining(studio, studio.desks.of("a"), request))
    refused = next(event for event in events if isinstance(event, Refused))
    assert refused.reason is not None
    assert refused.reason.key == "bad_parameter"
    assert list(maps(events)) == ["rollout"]


def test_an_expired_result_is_made_again_and_a_deleted_photo_said(
    studio: Studio, photo_file: Path, runs: list[int]
) -> None:
    desk, request = studio.desks.of("a"), ask(photo_file, ("rollout",))
    first = maps(list(explaining(studio, desk, request)))["rollout"]
    studio.store.drop("a")
    second = maps(list(explaining(studio, desk, request)))["rollout"]
    assert len(runs) == 2
    assert np.array_equal(first.values, second.values)
    studio.store.drop("a")
    photo_file.unlink()
    with pytest.raises(PhotoError) as caught:
        list(explaining(studio, desk, request))
    assert caught.value.args[0].key == "photo_gone"


def test_what_a_trace_is_said_to_take_is_what_it_holds(studio: Studio, photo_file: Path) -> None:
    vit = studio.models.ready("one")
    assert vit is not None
    trace = vit.trace(load_photo(photo_file))
    held = sum(call.q.nbytes + call.k.nbytes for call in trace.calls)
    assert held <= trace_bytes(trace) <= 2 * held + trace.photo.pixels.nbytes
