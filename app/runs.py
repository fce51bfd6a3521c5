"""The work that a visitor's button started: how far it is, and its end when it is not wanted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from app.desks import Desk
from app.making import TICK
from app.work import Job, Report, Workers


class Runs:
    """At most one run of each visitor, that its button's Cancel can stop."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._running: dict[str, Job] = {}

    @contextmanager
    def begin(self, desk: Desk, key: Hashable, work: Callable[[Report], Any]) -> Iterator[Job]:
        """Queue the work; on leaving, whatever the reason, it is stopped and forgotten."""
        job = self._running[desk.owner] = self._workers.begin(key, work)
        try:
            yield job
        finally:
            job.stop()
            if self._running.get(desk.owner) is job:
                del self._running[desk.owner]

    def stop(self, desk: Desk) -> None:
        """Stop the visitor's run, if there is one."""
        job = self._running.get(desk.owner)
        if job is not None:
            job.stop()


def shares(job: Job, desk: Desk) -> Iterator[float]:
    """How much is done (0..1), each time that it changes, until the work ends or they leave."""
    told = -1.0
    while not job.wait(TICK) and not desk.closed:
        if job.share != told:
            told = job.share
            yield told
