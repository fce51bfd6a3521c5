"""Starting the page from the command line."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answer(url: str, process: subprocess.Popen[str], seconds: float = 120) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url) as page:
                return str(page.read().decode())
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError("no page came")


@pytest.mark.parametrize("by_option", [False, True])
def test_page_answers_where_it_was_told_to(root: Path, by_option: bool) -> None:
    port = free_port()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    options = ["--port", str(port), "--lang", "zh"] if by_option else []
    if not by_option:
        environment["GRADIO_SERVER_PORT"] = str(port)
    process = subprocess.Popen(
        [sys.executable, "app.py", *options], cwd=root, env=environment, text=True
    )
    try:
        page = answer(f"http://127.0.0.1:{port}/", process)
        assert "ViTScope" in page
        assert bool(re.search(r"const fixed = .?.zh", page)) is by_option
        assert not re.search(r"""(?:href|src)=["']https?://""", page)
    finally:
        process.terminate()
        process.wait()


def test_missing_model_file_is_one_sentence(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "app.py", "--model", "nowhere.safetensors"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("check --model and --labels.")
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_one_sentence(root: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "app.py", "--port", str(taken)],
            cwd=root,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1
    assert done.stderr.strip().endswith(f"Port {taken} is in use; choose another --port.")
    assert "Traceback" not in done.stderr
