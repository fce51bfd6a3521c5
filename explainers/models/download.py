"""Fetch one file of the Hugging Face Hub into its cache: visible, stoppable, resumable, checked.

The Hub client's own download hands over ten megabytes at a time, cannot be stopped in
between and starts over after a break. Here a worker thread receives whatever arrives while
the caller's thread reports progress ten times a second, so that a stalled server neither
freezes a progress bar nor delays a cancel. A file enters the cache only whole and checked;
the cache's layout is the Hub client's own, so every other tool finds the file too.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from explainers.models.errors import ModelError
from explainers.models.hub_cache import announced, part, publish, refer
from explainers.sentence import Sentence

Progress = Callable[[int, int], None]
"""Called with (bytes received, bytes in all; 0 = not known yet); what it raises cancels."""

POLL = 0.1  # seconds between two reports of progress
ATTEMPTS = 4  # in a row, without a new byte, before giving up
PAUSE = 1.0  # seconds before the second attempt; grows with each
_ETAG = re.compile(r"[\w.-]+")  # it becomes a file name

_logger = logging.getLogger(__name__)


class TransferError(Exception):
    """The transfer failed; ``__cause__`` is what the server, the network or the disk did."""


class _StoppedError(Exception):
    """The caller went away: nobody waits for this transfer any more."""


def download(
    repo: str,
    filename: str,
    *,
    folder: Path,
    endpoint: str,
    revision: str = "main",
    progress: Progress | None = None,
    check: Callable[[Path], None] | None = None,
) -> Path:
    """The path in the cache ``folder`` of the newest ``filename`` of ``repo``.

    ``check`` looks at the complete file and raises ModelError when it is not what it should
    be; the file is then thrown away. What arrived before a break or a cancel is kept and the
    next call goes on from there. Raises ModelError, TransferError, and whatever ``progress``
    raises.
    """
    transfer = _Transfer(repo, filename, folder, endpoint, revision, check)
    worker = threading.Thread(target=transfer.run, name="download", daemon=True)
    worker.start()
    try:
        while not transfer.finished.wait(POLL):
            if progress is not None:
                progress(transfer.done, transfer.total)
        if transfer.error is None and progress is not None:
            progress(transfer.total, transfer.total)
    finally:
        transfer.stop.set()
    if isinstance(transfer.error, ModelError):
        raise transfer.error
    if transfer.path is None:
        raise TransferError from transfer.error
    return transfer.path


class _Transfer:
    """One download: run by the worker thread, watched by the caller's thread."""

    def __init__(
        self,
        repo: str,
        filename: str,
        folder: Path,
        endpoint: str,
        revision: str,
        check: Callable[[Path], None] | None,
    ) -> None:
        self.repo, self.filename, self.revision = repo, filename, revision
        self.folder, self.endpoint, self.check = folder, endpoint, check
        self.done = self.total = 0  # bytes
        self.stop = threading.Event()
        self.finished = threading.Event()
        self.error: BaseException | None = None
        self.path: Path | None = None

    def run(self) -> None:
        try:
            self.path = self._fetch()
        except BaseException as error:  # handed over to the caller's thread, which raises it
            self.error = error
        finally:
            self.finished.set()

    def _fetch(self) -> Path:
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.constants import HF_HUB_ETAG_TIMEOUT
        from huggingface_hub.file_download import repo_folder_name

        url = hf_hub_url(self.repo, self.filename, revision=self.revision, endpoint=self.endpoint)
        head = get_hf_file_metadata(url, timeout=HF_HUB_ETAG_TIMEOUT, endpoint=self.endpoint)
        commit, etag = head.commit_hash, head.etag
        if not (commit and etag and _ETAG.fullmatch(commit) and _ETAG.fullmatch(etag)):
            raise ModelError(
                Sentence(
                    "hub_not_a_hub",
                    "{endpoint} answered, but not as a model hub does; check HF_ENDPOINT and "
                    "the proxy settings.",
                    endpoint=self.endpoint,
                )
            )
        self.total = head.size or 0
        repository = repo_folder_name(repo_id=self.repo, repo_type="model")
        storage = self.folder / repository
        blob = storage / "blobs" / etag
        pointer = storage / "snapshots" / commit / self.filename
        pinned = hf_hub_url(self.repo, self.filename, revision=commit, endpoint=self.endpoint)
        with self._alone(self.folder / ".locks" / repository / f"{etag}.lock", blob):
            if not pointer.exists() and not blob.exists():
                self._receive(pinned, blob)
            publish(blob, pointer)
            if self.revision != commit:
                refer(storage / "refs" / self.revision, commit)
        return pointer

    @contextmanager
    def _alone(self, lock: Path, blob: Path) -> Iterator[None]:
        """Hold the Hub client's lock on this file; meanwhile show what its holder received."""
        from filelock import Timeout
        from huggingface_hub.utils import WeakFileLock

        lock.parent.mkdir(parents=True, exist_ok=True)
        blob.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            while True:
                self._go_on()
                try:
                    stack.enter_context(WeakFileLock(lock, timeout=2 * POLL))
                    break
                except Timeout:
                    unfinished = part(blob)
                    if unfinished.exists():
                        self.done = unfinished.stat().st_size
            yield

    def _receive(self, url: str, blob: Path) -> None:
        """Stream ``url`` behind what is there already, check the whole, move it to ``blob``."""
        from huggingface_hub.errors import HfHubHTTPError, HTTPError

        unfinished = part(blob)
        failures = 0
        with unfinished.open("ab") as file:
            while True:
                self.done = before = file.tell()
                try:
                    self._stream(url, file)
                    if self.done >= self.total:
                        break
                    raise _broken(self.repo, self.done, self.total)
                except HfHubHTTPError:
                    raise  # an answer, not a break
                except (HTTPError, ModelError) as error:
                    failures = 1 if self.done > before else failures + 1
                    _logger.warning("download of %s interrupted: %s", self.repo, error)
                    if failures >= ATTEMPTS:
                        raise _broken(self.repo, self.done, self.total) from error
                    self.stop.wait(PAUSE * failures)
                    self._go_on()
        try:
            if not announced(unfinished, blob.name):
                raise _damaged(self.repo)
            if self.check is not None:
                self.check(unfinished)
        except ModelError:
            unfinished.unlink(missing_ok=True)
            raise
        os.replace(unfinished, blob)

    def _stream(self, url: str, file: IO[bytes]) -> None:
        """Append what one request brings; a server without ranges makes it start over."""
        from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        if self.total and self.done > self.total:  # left by an older version of the file
            self._start_over(file)
        if self.total and self.done == self.total:
            return
        headers = build_hf_headers(library_name="vitscope") | {"Accept-Encoding": "identity"}
        if self.done:
            headers["Range"] = f"bytes={self.done}-"
        with get_session().stream(
            "GET", url, headers=headers, timeout=HF_HUB_DOWNLOAD_TIMEOUT, follow_redirects=True
        ) as response:
            hf_raise_for_status(response)
            if self.done and response.status_code != 206:
                self._start_over(file)
            for chunk in response.iter_bytes():
                self._go_on()
                file.write(chunk)
                self.done += len(chunk)
        self.total = self.total or self.done

    def _start_over(self, file: IO[bytes]) -> None:
        file.truncate(0)
        self.done = 0

    def _go_on(self) -> None:
        if self.stop.is_set():
            raise _StoppedError


def _broken(repo: str, done: int, total: int) -> ModelError:
    return ModelError(
        Sentence(
            "hub_broken_off",
            "The download of {repo} broke off after {done:.1f} of {total:.1f} MB; what arrived "
            "is kept, so try again to go on from there.",
            repo=repo,
            done=done / 1e6,
            total=total / 1e6,
        )
    )


def _damaged(repo: str) -> ModelError:
    return ModelError(
        Sentence(
            "hub_damaged",
            "What arrived of {repo} is not what the hub announced, so it was thrown away; try "
            "again.",
            repo=repo,
        )
    )
