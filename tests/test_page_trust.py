"""What the page says about how far to trust a map, and what a method costs."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import costs, curve, glance, trust
from app.drawing import shown_width
from app.explaining import Answered, Ended, Event, Mapped, explaining
from app.glance_events import toggled
from app.measuring import Measured, Measuring, Unmeasured, checks, measuring
from app.page import Page
from app.pick_events import token_at
from app.scene import Display, Request
from app.showing import Showing
from app.studio import Studio
from explainers import Cancelled, methods, wrap_model
from explainers.measures import measure
from tests.small_page import ask, maps, merged, page, photo_file, refuse, runs, slow, studio
from tests.tiny import tiny_vit

NAMES = ("rollout", "relevance")


def answered(events: list[Event]) -> Answered:
    return next(event for event in events if isinstance(event, Answered))


def measures(studio: Studio, request: Request) -> tuple[list[Event], list[Any]]:
    desk = studio.desks.of("a")
    events = list(explaining(studio, desk, request))
    found = measuring(studio, desk, request, answered(events), maps(events))
    return events, list(found)


def shown(page: Page, studio: Studio, request: Request, lang: str = "en") -> dict[Any, Any]:
    """What the widgets show once all maps are measured."""
    widgets, desk = page.widgets, studio.desks.of("a")
    showing = Showing(lang, request, studio, desk, widgets.chooser, widgets.tab, widgets.ranks)
    steps = [showing.begin()]
    steps += [showing.updates(event) for event in explaining(studio, desk, request)]
    assert showing.answered is not None
    made = measuring(studio, desk, request, showing.answered, showing.heats)
    steps += [showing.updates(event) for event in made]
    return merged(iter(steps))


def test_measures_come_after_all_maps_and_are_the_librarys_own(
    studio: Studio, photo_file: Path, runs: list[int]
) -> None:
    request = ask(photo_file, NAMES, target=3)
    events, found = measures(studio, request)
    assert isinstance(events[-1], Ended)
    done = [event for event in found if isinstance(event, Measured)]
    assert [event.name for event in done] == [*NAMES]
    trace = answered(events).trace
    for event in done:
        expected = measure(maps(events)[event.name], trace, target=3)
        assert event.measure.sentence == expected.sentence
    before = len(runs)
    again = measures(studio, request)[1]
    assert len(runs) == before  # remembered
    assert not [event for event in again if isinstance(event, Measuring)]


def test_a_newer_request_ends_the_measuring_and_gets_its_maps(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, request = studio.desks.of("a"), ask(photo_file, NAMES)
    events = list(explaining(studio, desk, request))
    slow(monkeypatch, 0.3)
    first = measuring(studio, desk, request, answered(events), maps(events))
    assert isinstance(next(first), Measuring)
    job = desk.aside
    later = list(explaining(studio, desk, ask(photo_file, ("saliency",))))
    assert isinstance(later[-1], Ended)
    assert job is not None
    assert job.stopped
    assert list(first) == []
    monkeypatch.undo()
    assert len(measures(studio, request)[1]) >= 2  # and can be made again


def test_drawing_anew_goes_on_with_the_measuring(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, request = studio.desks.of("a"), ask(photo_file, ("rollout",))
    events = list(explaining(studio, desk, request))
    slow(monkeypatch, 0.05)
    first = measuring(studio, desk, request, answered(events), maps(events))
    next(first)
    job = desk.aside
    drawn = replace(request, display=Display(opacity=0.2))
    assert [e.name for e in measures(studio, drawn)[1] if isinstance(e, Measured)] == ["rollout"]
    assert desk.aside is job


def test_cancel_and_leaving_end_it_too(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.05)
    desk, request = studio.desks.of("a"), ask(photo_file, ("rollout",))
    events = list(explaining(studio, desk, request))
    making = checks(studio, desk, request, "rollout", answered(events).trace)
    job = next(making)
    desk.stop()
    assert job.wait(10)
    with pytest.raises(Cancelled):
        list(making)
    studio.desks.leave("a")
    assert desk.start_aside("key", lambda: pytest.fail("the visitor has left")) is None


def test_what_cannot_be_measured_says_why(studio: Studio, photo_file: Path) -> None:
    _, found = measures(studio, ask(photo_file, ("feature_pca", "rollout")))
    refused = {event.name: event.reason for event in found if isinstance(event, Unmeasured)}
    assert refused["feature_pca"].key == "measure_no_order"
    studio.models.add("headless", wrap_model(tiny_vit(num_classes=0)))
    _, found = measures(studio, ask(photo_file, ("rollout",), model="headless"))
    reasons = [event.reason for event in found if isinstance(event, Unmeasured)]
    assert [reason.key for reason in reasons if reason] == ["no_head"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_cards_show_the_measure_and_room_for_it_before(
    page: Page, studio: Studio, photo_file: Path, lang: str
) -> None:
    request = ask(photo_file, (*NAMES, "feature_pca"), target=3)
    state = shown(page, studio, request, lang)
    assert {*state} <= {*page.widgets.shown}
    cards = page.widgets.tab.cards
    for name in NAMES:
        assert "vs-measured" in state[cards[name].measure]
        assert "lion" in state[cards[name].measure]
        assert state[cards[name].test]["visible"] is True
        assert state[cards[name].check]["visible"] is True
    assert state[cards["feature_pca"].test]["visible"] is False
    assert ("random order" in state[cards["rollout"].measure]) is (lang == "en")
    assert "measured" not in trust.busy(lang, "measure_working")


def test_verdicts_are_remembered_for_every_visitor(
    page: Page, studio: Studio, photo_file: Path
) -> None:
    request, desk = ask(photo_file, ("rollout",)), studio.desks.of("b")
    trace = answered(list(explaining(studio, desk, request))).trace
    list(checks(studio, desk, request, "rollout", trace))
    state = shown(page, studio, request)  # another visitor
    card = page.widgets.tab.cards["rollout"]
    assert "does not depend on the class" in state[card.checks]
    assert state[card.check]["visible"] is False
    other = shown(page, studio, ask(photo_file, ("rollout",), model="two"))
    assert other[card.checks] == ""


def test_the_curve_is_drawn_with_its_references_and_told_in_words(
    studio: Studio, photo_file: Path
) -> None:
    events, _ = measures(studio, ask(photo_file, ("rollout",), target=3))
    heat, trace = maps(events)["rollout"], answered(events).trace
    full = measure(heat, trace, target=3, full=True)
    for lang in ("en", "zh"):
        picture = curve.drawing(lang, full)
        assert picture.count("<polyline") == 3
        assert picture.count("<polygon") == 1
        assert "nan" not in picture
        assert f"{full.area:.3f}" in picture
        assert "role='img' aria-label='" in picture
    with pytest.raises(ValueError, match="full=True"):
        curve.drawing("en", measure(heat, trace, target=3))


def test_costs_are_told_before_a_slow_method_runs(
    page: Page, studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = methods()
    assert costs.note("en", table["relevance"], {}, 196, 0.1) == ""
    assert costs.note("en", table["occlusion"], {}, 196, None) == "About 197 forward passes."
    note = costs.note("en", table["occlusion"], {}, 196, 0.1)
    assert note == "About 197 forward passes, 20 s here."
    assert "200" not in costs.note("zh", table["occlusion"], {"window": 2}, 196, 0.1)
    assert costs.tick("en", table["rollout"], 196, 1) == "Attention rollout"
    assert costs.tick("zh", table["rise"], 196, 1).endswith("8 分钟")
    assert [costs.time_of("en", s) for s in (0.2, 3.4, 47, 90)] == [
        *("under a second", "3 s", "45 s", "2 min")
    ]
    state = shown(page, studio, ask(photo_file, ("rollout",)))
    choices = {
        name: title
        for group in page.widgets.tab.groups.values()
        for title, name in state[group]["choices"]
    }
    assert {*choices} == {*table}
    assert choices["occlusion"] == "Occlusion · under a second"
    slow(monkeypatch, 0.05)
    texts = [
        step[page.widgets.tab.cards["occlusion"].text]
        for step in _steps(page, studio, ask(photo_file, ("rollout", "occlusion")))
        if page.widgets.tab.cards["occlusion"].text in step
    ]
    assert "forward passes" in texts[0]


def _steps(page: Page, studio: Studio, request: Request) -> list[dict[Any, Any]]:
    widgets, desk = page.widgets, studio.desks.of("c")
    showing = Showing("en", request, studio, desk, widgets.chooser, widgets.tab, widgets.ranks)
    return [showing.updates(event) for event in explaining(studio, desk, request)]


def test_a_click_on_the_similarity_map_names_the_patch_there(
    studio: Studio, photo_file: Path
) -> None:
    events = list(explaining(studio, studio.desks.of("a"), ask(photo_file, ("patch_similarity",))))
    trace = answered(events).trace
    width = shown_width(trace.geometry)
    scale = width / trace.photo.width
    rows, columns = trace.grid
    for row, column in ((0, 0), (rows - 1, columns - 1), (1, 2)):
        left, top, right, bottom = trace.geometry.cell_box(row, column)
        place = [int((left + right) / 2 * scale), int((top + bottom) / 2 * scale)]
        assert token_at(trace, place) == trace.prefix + row * columns + column
    assert token_at(trace, [0, 0]) is None  # the photo is wider than what the model sees


def test_small_pictures_of_all_quick_methods_are_made_when_all_else_is_done(
    page: Page, studio: Studio, photo_file: Path, runs: list[int]
) -> None:
    desk, request = studio.desks.of("a"), ask(photo_file, ("rollout",), target=3)
    made = answered(list(explaining(studio, desk, request)))
    given = (studio, desk, request, made)
    names = glance.quick(request, made)
    assert {"rollout", "relevance", "grad_cam", "feature_pca"} <= {*names}
    assert not {"occlusion", "rise", "smoothgrad"} & {*names}
    before = glance.html("en", *given, ("rollout",))
    assert before.count("<button") == before.count("<i>") == len(names)
    assert list(glance.glancing(*given))[-1] == glance.Glance()
    after = glance.html("zh", *given, ("rollout",))
    assert after.count("<img alt='' src='data:image/jpeg") == len(names)
    assert after.count("aria-pressed='true'") == 1
    count = len(runs)
    asked = replace(request, methods=tuple(names))
    assert len(maps(list(explaining(studio, desk, asked)))) == len(names)
    assert len(runs) == count  # a map that was made for its small picture is there at once


def test_any_click_drops_the_small_pictures(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, request = studio.desks.of("a"), ask(photo_file, ("rollout",))
    made = answered(list(explaining(studio, desk, request)))
    desk.next_turn()
    assert list(glance.glancing(studio, desk, request, made)) == []


def test_a_click_on_a_small_picture_ticks_and_unticks() -> None:
    assert toggled("look", ["attention"], "rollout") == ["attention", "rollout"]
    assert toggled("look", ["attention", "rollout"], "rollout") == ["attention"]
    for nothing in ("relevance", "<b>", None):
        assert toggled("look", ["attention"], nothing) == ["attention"]
