"""Waiting for a job on behalf of a visitor, who may want something else meanwhile."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

from app.desks import Desk
from app.work import Job

TICK = 0.1
"""Seconds between two looks at a running job: how fast progress and Cancel are."""

Made = TypeVar("Made")
Making = Generator[Job, None, Made]
"""A step of a request: yields its job every tick while it runs, then returns the result."""


class Outdated(Exception):  # noqa: N818 - not an error
    """A later request of the same visitor has taken over."""


class Stopped(Exception):  # noqa: N818 - a wish, not an error
    """The visitor pressed Cancel."""


def follow(desk: Desk, turn: int, job: Job) -> Iterator[Job]:
    """Yield the job every tick until it ends; raises when the visitor went on or pressed Cancel."""
    while True:
        if desk.turn != turn:
            raise Outdated
        if desk.stopped_turn == turn:
            raise Stopped
        if job.wait(TICK):
            return
        yield job
