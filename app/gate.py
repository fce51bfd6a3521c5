"""What may reach the server: no oversized bodies, no fetching of foreign addresses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gradio.route_utils import API_PREFIX

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

logger = logging.getLogger(__name__)

MAX_BODY = 2_000_000
"""Bytes of a request that is not an upload; uploads have Gradio's own limit."""

UPLOAD = f"{API_PREFIX}/upload"
"""The one address that takes files; an endpoint may be called "upload" too."""


class BodyTooLargeError(Exception):
    """A chunked body grew past the limit while it was being read."""


class Gate:
    """ASGI middleware: refuses relayed web addresses (403), oversized bodies (413), nonsense (400).

    Gradio would fetch any public address for a visitor; here photos come only as files. The
    body is counted while it is read, because a chunked request declares no length. Nothing is
    buffered: results are streamed through this class.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], max_body: int = MAX_BODY) -> None:
        self.app = app
        self.max_body = max_body

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if _relays(path):
            await _refuse(send, 403)
        elif path == UPLOAD:
            await self._answered(scope, receive, send)
        elif not declared.isdigit() or int(declared) > self.max_body:
            await _refuse(send, 413)
        else:
            await self._answered(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        received = 0

        async def count() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_body:
                raise BodyTooLargeError
            return message

        return count

    async def _answered(self, scope: Message, receive: Receive, send: Send) -> None:
        """Hand the request on; one that Gradio breaks at (no such function, no file) gets 400."""
        started = False

        async def note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, note)
        except Exception as error:
            status = 413 if isinstance(error, BodyTooLargeError) else 400
            logger.warning("%s was asked what has no answer: %r", scope["path"], error)
            if not started:
                await _refuse(send, status)


def _relays(path: str) -> bool:
    """Whether the path asks Gradio to hand on something from another address."""
    _, marker, wanted = path.partition("/file=")
    return "/proxy=" in path or (bool(marker) and wanted.lower().startswith(("http:", "https:")))


async def _refuse(send: Send, status: int) -> None:
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"refused"})
