"""Running models: a few workers for everybody, jobs that report progress and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from explainers.methods.explain import Cancelled

Report = Callable[[int, int], None]


class Job:
    """One piece of work: ``key`` says what it makes, ``share`` how much is done (0..1)."""

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.share = 0.0
        self.started = threading.Event()
        self.future: Future[Any] = Future()
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ask the work to end at its next model call; work not yet begun never begins."""
        self._stop.set()

    @property
    def ended(self) -> bool:
        return self.future.done()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def report(self, done: int, total: int) -> None:
        """Called by the work at every model call; raises Cancelled once stopped."""
        self.share = done / total if total else 0.0
        if self.stopped:
            raise Cancelled

    def wait(self, seconds: float) -> bool:
        """Whether the job has ended, waiting for it at most ``seconds``."""
        return bool(wait([self.future], seconds).done)

    def result(self) -> Any:
        """What the ended work returned; raises what it raised."""
        return self.future.result()


class Workers:
    """A pool of ``count`` threads that run the models, whoever asks."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="model")

    def begin(self, key: Hashable, work: Callable[[Report], Any]) -> Job:
        """Queue ``work(report)`` and return its job at once."""
        job = Job(key)
        self._pool.submit(_run, job, work)
        return job


def _run(job: Job, work: Callable[[Report], Any]) -> None:
    job.started.set()
    try:
        if job.stopped:
            raise Cancelled
        job.future.set_result(work(job.report))
    except BaseException as error:
        job.future.set_exception(error)
