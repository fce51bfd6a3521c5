"""One desk a visitor: the folder of their files, the job running for them, their turn."""

from __future__ import annotations

import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.work import Job

AGAIN = 0.5
"""Seconds within which the same request is the same wish: Gradio's menus tell a click twice."""


@dataclass
class Desk:
    """What the page holds for one visitor besides what can be made again.

    turn: counts their requests; a request that sees a later turn gives way to it.
    stopped_turn: the turn that Cancel ended. closed: the visitor has left.
    """

    owner: str
    folder: Path
    turn: int = 0
    stopped_turn: int = 0
    model_turn: int = 0
    """Counts their choices of a model, which do not disturb the maps being made."""
    wanted_model: str | None = None
    """The model chosen last, by hand or by a link; it may still be loading."""
    followed: bool = False
    """Whether the view told by the page's address, or by a file, has been turned to."""
    ready_model: str | None = None
    """The model whose settings the page shows, to be the one in use from now on."""
    restored: Any = None
    """The scene of a link whose settings the page shows, to be looked at from now on."""
    board: dict[str, Any] | None = None
    """What the Attention tab shall look at, as a link says; it is told once."""
    photo_turn: int = 0
    """Counts their choices of a photo, of which the last one holds."""
    compare_turn: int = 0
    """Counts their comparisons and the times they stopped one; only the last goes on."""
    closed: bool = False
    classes_of: str | None = None
    """The model whose classes the page's class menus list now."""
    settings_of: str | None = None
    """The model that the settings' ranges fit now."""
    costs_of: tuple[str, str] | None = None
    """The model and language whose costs the method chooser tells now."""
    shown_photo: str | None = None
    """The photo that the page's answers and maps speak of now."""
    inside_of: tuple[str, str] | None = None
    """The model and language that "Inside the model" shows now."""
    asked: tuple[Any, float] | None = None
    """What the page asked for last, and when, while that is the visitor's latest request."""
    asked_turn: int = 0
    """The turn that it was given."""
    job: Job | None = None
    aside: Job | None = None
    """Work that no map waits for; it ends as soon as a map is to be made."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    calls: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held by the call of an endpoint that is being answered; the others of the visitor wait."""
    closing: threading.Timer | None = None
    """Closes the desk of a program, or of one who had left, that has not called for a while."""

    def next_turn(self) -> int:
        """Begin a new request, which makes all earlier ones of this visitor outdated."""
        with self.lock:
            self.asked = None
            self.turn += 1
            return self.turn

    def ask(self, what: Any) -> int | None:
        """The turn of a new request; None for one that repeats the one just before it."""
        with self.lock:
            now, before = time.monotonic(), self.asked
            if before is not None and before[0] == what and now - before[1] <= AGAIN:
                return None
            self.asked = what, now
            self.turn += 1
            self.asked_turn = self.turn
            return self.turn

    def start(self, turn: int, key: Hashable, begin: Callable[[], Job]) -> Job | None:
        """The job that makes ``key``: the one under way or a new one; None out of turn."""
        with self.lock:
            if self.turn != turn or self.closed:
                return None
            job = self.job
            if job is None or job.key != key or job.ended or job.stopped:
                job = self.job = begin()
                if self.aside is not None:
                    self.aside.stop()
            return job

    def start_aside(self, key: Hashable, begin: Callable[[], Job]) -> Job | None:
        """The visitor's running job, whatever it makes; only where there is none, a new one."""
        with self.lock:
            if self.closed:
                return None
            for job in (self.job, self.aside):
                if job is not None and not job.ended:
                    return job
            self.aside = begin()
            return self.aside

    def stop(self) -> None:
        """Cancel: end the running work and the request that waits for it."""
        with self.lock:
            self.stopped_turn = self.turn
            self.asked = None
            for job in (self.job, self.aside):
                if job is not None:
                    job.stop()

    def close(self) -> None:
        """The visitor has left: stop their work, delete their files."""
        self.closed = True
        if self.closing is not None:
            self.closing.cancel()
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Desks:
    """The desks of all visitors, at most ``limit``: the longest unused is closed first.

    ``make_folder`` returns a new private folder; ``forget`` drops what is remembered elsewhere
    about a visitor whose desk is closed. idle: seconds without a request after which the desk of
    one who had left is closed again. Their last requests can come later than the news that they
    left; and who only lost the connection has a desk like anybody else.
    """

    def __init__(
        self, make_folder: Callable[[], Path], forget: Callable[[str], None], limit: int = 200
    ) -> None:
        self._make_folder = make_folder
        self._forget = forget
        self._limit = limit
        self.idle = 300.0
        self._left: OrderedDict[str, None] = OrderedDict()
        self._desks: OrderedDict[str, Desk] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._desks)

    def all(self) -> list[Desk]:
        """The desks of all visitors there are now."""
        with self._lock:
            return list(self._desks.values())

    def of(self, owner: str) -> Desk:
        """The visitor's desk, a new one at the first call."""
        with self._lock:
            desk = self._desks.pop(owner, None) or Desk(owner, self._make_folder())
            self._desks[owner] = desk
            if owner in self._left:
                self._expire(desk)
            surplus = []
            while len(self._desks) > self._limit:
                surplus.append(self._desks.popitem(last=False)[1])
        for old in surplus:
            self._close(old)
        return desk

    def leave(self, owner: str) -> None:
        """Stop the visitor's work and delete all that belongs to them."""
        with self._lock:
            desk = self._desks.pop(owner, None)
            self._left[owner] = None
            if len(self._left) > 10 * self._limit:
                self._left.popitem(last=False)
        if desk is not None:
            self._close(desk)

    def _expire(self, desk: Desk) -> None:
        """Close the desk some time after this, which is its latest request."""
        if desk.closing is not None:
            desk.closing.cancel()
        desk.closing = threading.Timer(self.idle, self.leave, [desk.owner])
        desk.closing.daemon = True
        desk.closing.start()

    def _close(self, desk: Desk) -> None:
        desk.close()
        self._forget(desk.owner)
