"""Asking a served page without a client of Gradio's: what anybody may send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

BOUNDARY = "photo-boundary"


def ask(address: str, body: Any = None) -> tuple[int, str]:
    """The status and the text of the answer; a ``body`` is posted as JSON."""
    sent = None if body is None else json.dumps(body).encode()
    accepted = "application/json, text/event-stream"
    return _opened(Request(address, sent, _headers("application/json", accepted)))


def upload(page: str, file: Path) -> dict[str, Any]:
    """Upload a file to the page at an address: what an endpoint is given of it."""
    head = (
        f"--{BOUNDARY}\r\nContent-Disposition: form-data; name=files; filename={file.name}\r\n"
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    body = head.encode() + file.read_bytes() + f"\r\n--{BOUNDARY}--\r\n".encode()
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    _, text = _opened(Request(f"{page}gradio_api/upload", body, _headers(kind, "*/*")))
    return {"path": json.loads(text)[0], "meta": {"_type": "gradio.FileData"}}


def end_of_call(page: str, name: str, values: list[Any]) -> str:
    """How a call of an endpoint ends: "complete" or "error"."""
    address = f"{page}gradio_api/call/{name}"
    status, text = ask(address, {"data": values})
    if status != 200:
        return "error"
    _, events = ask(f"{address}/{json.loads(text)['event_id']}")
    return events.rsplit("event: ", 1)[-1].split("\n", 1)[0]


def _headers(kind: str, accepted: str) -> dict[str, str]:
    return {"Content-Type": kind, "Accept": accepted}


def _opened(request: Request) -> tuple[int, str]:
    try:
        with urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode(errors="replace")
