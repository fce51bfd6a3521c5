"""The command line of `python app.py`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from app.texts import LANGUAGES


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; host, port and share fall back to Gradio's own GRADIO_… variables."""
    parser = argparse.ArgumentParser(
        prog="app.py", description="ViTScope: see what a Vision Transformer looked at, and why."
    )
    parser.add_argument(
        "--model",
        default="embedded",
        help="embedded (default), auto, a timm name, or a .safetensors file",
    )
    parser.add_argument("--arch", help="the file's timm architecture, where it does not name one")
    parser.add_argument("--labels", help="names of the classes: .txt (a line each) or .json")
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port (default: the first free one from 7860)")
    parser.add_argument(
        "--lang", choices=sorted(LANGUAGES), help="the page's language (default: the browser's)"
    )
    parser.add_argument("--share", action="store_true", help="also open a public gradio.live link")
    return parser.parse_args(arguments)
