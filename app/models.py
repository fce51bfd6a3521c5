"""The models everybody shares: loaded once each, in the background, a few kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from app.work import Job, Report, Workers
from explainers.models.vision_model import VisionModel

Loader = Callable[[str, Report, bool], VisionModel]
"""(name, report, download) → the model; downloads only where ``download`` allows it."""


class ModelPool:
    """Models by name. Loading one blocks nobody who uses another.

    ``limit`` models are kept besides the pinned
    ones; the least recently used goes first, once nobody's trace holds it any more.
    """

    def __init__(self, load: Loader, limit: int = 3, loaders: int = 2) -> None:
        self._load = load
        self._limit = limit
        self._loaders = Workers(loaders)
        self._models: OrderedDict[str, VisionModel] = OrderedDict()
        self._pinned: dict[str, VisionModel] = {}
        self._jobs: dict[tuple[str, bool], Job] = {}
        self._waiting: dict[Job, int] = {}
        self._lock = threading.Lock()

    def add(self, name: str, model: VisionModel) -> None:
        """Keep a model that was loaded elsewhere, for good."""
        with self._lock:
            self._pinned[name] = model

    def names(self) -> list[str]:
        """The models that are ready, pinned ones first."""
        with self._lock:
            return [*self._pinned, *self._models]

    def ready(self, name: str) -> VisionModel | None:
        """The model if it is loaded, now the most recently used; never waits."""
        with self._lock:
            if name in self._pinned:
                return self._pinned[name]
            if name in self._models:
                self._models.move_to_end(name)
                return self._models[name]
            return None

    def begin(self, name: str, download: bool = False) -> Job:
        """The job that loads a model, now also for the caller: the one under way, or a new one.

        Whoever no longer waits for it says so with `leave`.
        """
        with self._lock:
            job = self._jobs.get((name, download))
            if job is None or job.stopped:
                job = self._loaders.begin(
                    ("model", name), lambda report: self._make(name, report, download)
                )
                self._jobs[name, download] = job
                self._waiting[job] = 0
            self._waiting[job] = self._waiting.get(job, 0) + 1
            return job

    def leave(self, job: Job) -> None:
        """The caller no longer waits for ``job``; the last one to go stops it."""
        with self._lock:
            count = self._waiting.get(job, 0) - 1
            if count > 0:
                self._waiting[job] = count
                return
            self._waiting.pop(job, None)
        job.stop()

    def _make(self, name: str, report: Report, download: bool) -> VisionModel:
        try:
            model = self.ready(name) or self._load(name, report, download)
            with self._lock:
                if name not in self._pinned:
                    self._models[name] = model
                while len(self._models) > self._limit:
                    self._models.popitem(last=False)
            return model
        finally:
            with self._lock:
                self._jobs.pop((name, download), None)
