"""Updates that follow one another fast reach the page together, and none is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import pytest

from app.desks import AGAIN, Desk
from app.gathering import GAP, Updates, gathered, joined


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock shows; tests set it."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_what_comes_fast_is_told_at_once_and_what_comes_late_by_itself(clock: list[float]) -> None:
    def stream() -> Iterator[Updates]:
        yield {"a": 1}
        yield {"b": 1}
        yield {"a": 2}
        clock[0] += 2 * GAP
        yield {}
        yield {"c": 1}
        clock[0] += 2 * GAP
        yield {"c": 2}
        yield {"d": 1}

    assert list(gathered(stream(), lambda: True)) == [
        {"a": 1},
        {"b": 1, "a": 2},
        {"c": 2},
        {"d": 1},
    ]


def test_nothing_to_tell_is_no_answer() -> None:
    assert list(gathered([], lambda: True)) == []
    assert list(gathered([{}, {}], lambda: True)) == []


def test_what_waits_is_not_told_after_a_newer_request(clock: list[float]) -> None:
    wanted = True

    def stream() -> Iterator[Updates]:
        nonlocal wanted
        yield {"status": "going on"}
        yield {"map": "old"}
        wanted = False

    assert list(gathered(stream(), lambda: wanted)) == [{"status": "going on"}]


@pytest.mark.parametrize(
    ("before", "after", "both"),
    [
        ("old", "new", "new"),
        ("old", gr.update(visible=True), {**gr.update(visible=True), "value": "old"}),
        (gr.update(value=1, visible=True), gr.update(value=2), gr.update(value=2, visible=True)),
        (gr.update(visible=False), "new", gr.update(visible=False, value="new")),
        ({"a": 1}, {"b": 2}, {"b": 2}),  # a value that happens to be a dict
    ],
)
def test_of_two_updates_the_later_holds_and_the_rest_stays(
    before: object, after: object, both: object
) -> None:
    assert joined({"x": before, "y": 1}, {"x": after, "z": 2}) == {"x": both, "y": 1, "z": 2}


def test_a_request_told_twice_in_a_moment_is_answered_once(
    clock: list[float], tmp_path: Path
) -> None:
    desk = Desk("someone", tmp_path)
    assert desk.ask("this") == 1
    assert desk.ask("this") is None
    assert desk.ask("that") == 2
    assert desk.ask("this") == 3
    clock[0] += 2 * AGAIN
    assert desk.ask("this") == 4
    desk.stop()
    assert desk.ask("this") == 5  # a person who cancels and begins again means it
    assert desk.next_turn() == 6  # what was asked has been given up for this
    assert desk.ask("this") == 7
