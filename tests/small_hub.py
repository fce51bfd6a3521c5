"""A small model hub on 127.0.0.1 that speaks what the Hub's client needs, and fails on demand.

    HEAD or GET /{owner}/{model}/resolve/{branch or commit}/{file}

with ETag, X-Repo-Commit, Content-Length and Range, as the real one answers.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

import timm
from safetensors.torch import save
from torch import nn

from tests.tiny import seeded

COMMIT = "c0ffee" + "0" * 34
TINY = "test_vit.r160_in1k"  # timm's own test model: 1.5 MB, 160 pixels, 1,000 classes
TINY_REPO = f"timm/{TINY}"

Mode = Literal["ok", "slow", "breaks", "stalls", "lies", "norange", "plain", "busy"]
"""slow: 20 kB each 50 ms; breaks: closes halfway; stalls: falls silent halfway; lies: sends
other bytes of the same length; norange: ignores Range; plain: sends no header of a hub; busy:
answers HEAD, and GET with 503."""


def tiny_module(name: str = TINY, **arguments: Any) -> nn.Module:
    """timm's test model with seeded random weights."""
    with seeded(0):
        return timm.create_model(name, **arguments).eval()


def tiny_weights(name: str = TINY, **arguments: Any) -> bytes:
    """The safetensors bytes of `tiny_module`."""
    return save(tiny_module(name, **arguments).state_dict())


@dataclass
class SmallHub:
    """Use it in ``with``; change ``mode``, ``status`` or ``files`` while it runs.

    files: (repository, file name) → bytes. status: an error to answer everything with.
    breaks: how many more answers break off (mode "breaks"). cdn: where weights really lie.
    requests: (method, path, Range header) of everything asked for.
    """

    files: dict[tuple[str, str], bytes]
    mode: Mode = "ok"
    status: int = 200
    breaks: int = 1_000_000
    cdn: SmallHub | None = None
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> SmallHub:
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def sent(self, file: str = "model.safetensors") -> list[str | None]:
        """The Range header of each GET of a file."""
        return [r for method, path, r in self.requests if method == "GET" and path.endswith(file)]


class _Handler(BaseHTTPRequestHandler):
    hub: SmallHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Keep the tests' output clean."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        hub = self.hub
        hub.requests.append((self.command, self.path, self.headers["Range"]))
        owner, model, resolve, _, file = (*self.path.strip("/").split("/"), *[""] * 5)[:5]
        content = hub.files.get((f"{owner}/{model}", file)) if resolve == "resolve" else None
        if hub.status != 200 or content is None:
            return self._refuse(404 if hub.status == 200 else hub.status)
        if hub.mode == "busy" and body:
            return self._refuse(503)
        etag = hashlib.sha256(content).hexdigest()
        if hub.cdn is not None:
            return self._redirect(hub.cdn, etag, len(content))
        start = self._start(len(content)) if hub.mode != "norange" else 0
        self.send_response(206 if start else 200)
        if hub.mode != "plain":
            self.send_header("ETag", f'"{etag}"')
            self.send_header("X-Repo-Commit", COMMIT)
        if start:
            end = len(content) - 1
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if body:
            self._send(content, start)
        return None

    def _start(self, length: int) -> int:
        wanted = self.headers["Range"] or "bytes=0-"
        return min(int(wanted.removeprefix("bytes=").split("-")[0]), length)

    def _redirect(self, cdn: SmallHub, etag: str, length: int) -> None:
        self.send_response(302)
        self.send_header("Location", cdn.url + self.path)
        self.send_header("X-Linked-ETag", f'"{etag}"')
        self.send_header("X-Linked-Size", str(length))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        if status == 404:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("Content-Length", "4")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(b"No!\n")

    def _send(self, content: bytes, start: int) -> None:
        hub = self.hub
        if hub.mode == "lies":
            content = bytes(len(content))
        rest = content[start:]
        try:
            if hub.mode == "slow":
                for i in range(0, len(rest), 20_000):
                    self.wfile.write(rest[i : i + 20_000])
                    self.wfile.flush()
                    if hub.mode == "slow" and hub.closing.wait(0.05):
                        return
            elif hub.mode in ("breaks", "stalls") and hub.breaks > 0:
                hub.breaks -= 1
                self.wfile.write(rest[: len(rest) // 2])
                self.wfile.flush()
                if hub.mode == "stalls":
                    hub.closing.wait(30)
                self.close_connection = True
            else:
                self.wfile.write(rest)
        except OSError:  # the client went away
            self.close_connection = True


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail when the block takes longer."""
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < seconds
