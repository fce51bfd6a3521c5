"""The page's gate and address: what is let in, and where it is served."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from app import options
from app.gate import Gate

# -- gate ----------------------------------------------------------------------------------


def through_gate(path: str, chunks: list[bytes], declared: int | None) -> tuple[int, int]:
    """The status, and how many bytes the application behind the gate received."""
    received, sent = [], []

    async def application(scope, receive, send):  # type: ignore[no-untyped-def]
        while True:
            message = await receive()
            received.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    messages = [
        {"type": "http.request", "body": chunk, "more_body": i + 1 < len(chunks)}
        for i, chunk in enumerate(chunks)
    ]

    async def receive():  # type: ignore[no-untyped-def]
        return messages.pop(0)

    async def send(message):  # type: ignore[no-untyped-def]
        sent.append(message)

    length = [] if declared is None else [(b"content-length", str(declared).encode())]
    scope = {"type": "http", "path": path, "headers": length}
    asyncio.run(Gate(application, max_body=10)(scope, receive, send))
    return sent[0]["status"], sum(map(len, received))


@pytest.mark.parametrize(
    ("path", "chunks", "declared", "status"),
    [
        ("/gradio_api/queue/join", [b"12345", b"12345"], 10, 200),
        ("/gradio_api/queue/join", [b"12345"], 11, 413),
        ("/gradio_api/queue/join", [b"12345", b"12345", b"1"], None, 413),
        ("/gradio_api/upload", [b"12345", b"12345", b"1"], 11, 200),
        ("/gradio_api/run/upload", [b"12345"], 11, 413),
        ("/gradio_api/call/upload", [b"12345", b"12345", b"1"], None, 413),
        ("/upload", [b"12345"], 11, 413),
        ("/gradio_api/upload/", [b"12345"], 11, 413),
        ("/gradio_api/file=http://example.com/a.png", [b""], 0, 403),
        ("/gradio_api/file=HTTPS://example.com/a.png", [b""], 0, 403),
        ("/gradio_api/proxy=https://example.com/", [b""], 0, 403),
        ("/gradio_api/file=/folder/http.png", [b""], 0, 200),
    ],
)
def test_gate(path: str, chunks: list[bytes], declared: int | None, status: int) -> None:
    found, received = through_gate(path, list(chunks), declared)
    assert found == status
    assert received <= 11


def test_a_request_that_gradio_breaks_at_gets_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def application(scope, receive, send):  # type: ignore[no-untyped-def]
        raise KeyError(99999)

    sent: list[Any] = []

    async def send(message):  # type: ignore[no-untyped-def]
        sent.append(message)

    scope = {"type": "http", "path": "/gradio_api/queue/join", "headers": []}
    asyncio.run(Gate(application)(scope, None, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 400
    assert "KeyError(99999)" in caplog.text


# -- the address ---------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["0", "65536", "99999999", "-1", "x", "7860.0", "²"])
def test_a_port_out_of_range_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert options.parse(["--port", "65535"]).port == 65535
    with pytest.raises(SystemExit):
        options.parse(["--port", port])
    assert f"a whole number from 1 to 65535, as 7860; got '{port}'" in capsys.readouterr().err


def test_an_address_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GRADIO_SERVER_NAME", "GRADIO_SERVER_PORT"):
        monkeypatch.delenv(variable, raising=False)
    assert options.address_problem(None, None) is None
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        told = f"Port {taken} is in use; choose another --port."
        assert options.address_problem(None, taken) == told
        assert options.address_problem("127.0.0.1", taken) == told
        monkeypatch.setenv("GRADIO_SERVER_PORT", str(taken))
        assert options.address_problem(None, None) == told
        monkeypatch.delenv("GRADIO_SERVER_PORT")
    for host in ("203.0.113.9", "no such host"):
        told = options.address_problem(host, None) or ""
        assert told.startswith(f"{host} is no address of this machine; choose another --host")
