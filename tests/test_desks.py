"""Desks of visitors who left: what comes late is forgotten too, who came back is not hurried."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import time

from app.studio import Studio
from tests.small_page import studio


def test_what_a_late_request_made_is_forgotten(studio: Studio) -> None:
    desks = studio.desks
    desks.idle = 0.1
    stays = desks.of("b")
    desks.of("a")
    desks.leave("a")
    studio.store.put("a", "map", b"numbers", 7)
    late = desks.of("a")  # its last request was on the way when the news of leaving came
    end = time.monotonic() + 5
    while studio.store.get("a", "map") is not None and time.monotonic() < end:
        time.sleep(0.02)
    assert late.closed
    assert not late.folder.exists()
    assert studio.store.get("a", "map") is None
    assert not stays.closed
    assert desks.all() == [stays]


def test_each_request_of_one_who_came_back_begins_the_time_anew(studio: Studio) -> None:
    desks = studio.desks
    desks.idle = 0.5
    desks.leave("a")
    desk = desks.of("a")
    for _ in range(8):
        time.sleep(0.1)
        assert desks.of("a") is desk
    assert not desk.closed
