"""A stranger's path through the page: own weights, own names of classes, own photo."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from explainers import load_model, load_photo
from explainers.registry import DEFAULT_METHODS
from tests.browser_page import PATIENCE, card, choose, classes, give, ready
from tests.own_weights import ARCH, COLOURS, fine_tuned, write_files

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    return write_files(tmp_path_factory.mktemp("stranger"), fine_tuned())


@pytest.fixture(scope="module")
def address(files: tuple[Path, Path, Path], root: Path) -> Iterator[str]:
    """`python app.py --model FILE --arch NAME --labels FILE`, as its own process."""
    weights, labels, _ = files
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--model", str(weights), "--arch", ARCH, "--labels", str(labels)]
    process = subprocess.Popen(
        [sys.executable, "app.py", *options, "--device", "cpu", "--port", str(port)],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "Running on local URL" in line:
                break
        else:
            pytest.fail(f"the page did not start: exit code {process.wait()}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def test_own_weights_are_explained_on_the_page(
    address: str, files: tuple[Path, Path, Path], page: Page
) -> None:
    weights, labels, photo = files
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.locator("#vs-model-note").get_by_text("head.1").wait_for()  # how the head was taken
    give(page, photo)
    ready(page, len(DEFAULT_METHODS))
    assert classes(page)[0] == "plum"
    assert set(classes(page)) == set(COLOURS)
    vit = load_model(weights, arch=ARCH, labels=labels, device="cpu")
    trace = vit.trace(load_photo(photo))
    share = 100 * trace.top(1)[0][2]
    shown = re.search(r"([\d.]+)\s*%", page.locator("#vs-top button").first.inner_text())
    assert shown is not None
    assert abs(float(shown.group(1)) - share) <= 0.1
    for name in DEFAULT_METHODS:
        assert card(page, name).locator(".vs-map img").is_visible()
    choose(page, "#vs-target", "moss")
    card(page, "relevance").get_by_text("For the class moss").wait_for()
