"""The command line of `python app.py`."""

from __future__ import annotations

import argparse
import errno
import os
import socket
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from app.texts import LANGUAGES

LAST_PORT = 65535
MOST_MEGABYTES = 2048


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; host, port, share and root path fall back to Gradio's own GRADIO_… variables."""
    parser = argparse.ArgumentParser(
        prog="app.py", description="ViTScope: see what a Vision Transformer looked at, and why."
    )
    parser.add_argument(
        "--model",
        default="auto",
        help="embedded, auto (default: the preferred model where it is on this machine, else "
        "embedded), a timm name, or a .safetensors file",
    )
    parser.add_argument("--arch", help="the file's timm architecture, where it does not name one")
    parser.add_argument("--labels", help="names of the classes: .txt (a line each) or .json")
    parser.add_argument(
        "--device", default="auto", help="auto (default: CUDA, else MPS, else the CPU), cpu, …"
    )
    parser.add_argument(
        "--dtype",
        default="float32",
        help="float32 (default), bfloat16 or float16: how models compute",
    )
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, help="port (default: the first free one from 7860)")
    parser.add_argument(
        "--lang", choices=sorted(LANGUAGES), help="the page's language (default: the browser's)"
    )
    parser.add_argument(
        "--auth",
        type=_auth,
        default=os.environ.get("VITSCOPE_AUTH"),
        metavar="NAME:PASSWORD",
        help="ask visitors for these (default: VITSCOPE_AUTH, which other users of the machine "
        "cannot read, where it is set; else nobody is asked)",
    )
    parser.add_argument(
        "--root-path", help="the page's path behind a proxy, as /vitscope (GRADIO_ROOT_PATH)"
    )
    parser.add_argument(
        "--max-upload",
        type=_megabytes,
        default=os.environ.get("VITSCOPE_MAX_UPLOAD", "64"),
        metavar="MB",
        help="largest photo file taken (default: VITSCOPE_MAX_UPLOAD, else 64)",
    )
    parser.add_argument(
        "--mcp",
        action="store_true",
        help="also serve the public endpoints as tools for assistants (pip install 'mcp>=1.21,<2')",
    )
    parser.add_argument("--share", action="store_true", help="also open a public gradio.live link")
    return parser.parse_args(arguments)


def _port(text: str) -> int:
    if text.isdecimal() and 1 <= int(text[:6]) <= LAST_PORT:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"expected a whole number from 1 to {LAST_PORT}, as 7860; got {text!r}"
    )


def _auth(text: str) -> tuple[str, str]:
    name, colon, password = text.partition(":")
    if name and colon and password:
        return name, password
    raise argparse.ArgumentTypeError("expected NAME:PASSWORD, neither of them empty")


def _megabytes(text: str) -> int:
    if text.isdecimal() and 1 <= int(text[:6]) <= MOST_MEGABYTES:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"expected a whole number of MB from 1 to {MOST_MEGABYTES}; got {text!r}"
    )


def serving(options: argparse.Namespace) -> dict[str, Any]:
    """What ``gr.Blocks.launch`` is told of the options."""
    return {
        "server_name": options.host,
        "server_port": options.port,
        "share": options.share or None,
        "auth": options.auth,
        "root_path": options.root_path,
        "max_file_size": f"{options.max_upload}mb",
        "mcp_server": options.mcp,
    }


def mcp_problem(wanted: bool) -> str | None:
    """Why no tools can be served, in one sentence; None where they can, or are not wanted."""
    if wanted and find_spec("mcp") is None:
        return "--mcp needs the package mcp: pip install 'mcp>=1.21,<2', or leave --mcp out."
    return None


def address_problem(host: str | None, port: int | None) -> str | None:
    """Why the page cannot listen there, in one sentence; None where it can.

    Without ``host`` and ``port`` it is what Gradio will take: its variables, or its defaults.
    """
    host = host or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
    port = port or int(os.environ.get("GRADIO_SERVER_PORT") or 0)
    try:
        kind, _, _, _, address = socket.getaddrinfo(host.strip("[]"), port)[0]
        with socket.socket(kind) as probe:
            if os.name != "nt":  # there it would let two programs share a port
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"Port {port} is in use; choose another --port."
        if error.errno == errno.EACCES:
            return f"Port {port} may not be opened here; choose a --port from 1024 up."
        return f"{host} is no address of this machine; choose another --host, as 127.0.0.1."
    return None
