"""Fixtures that several test files share.

No test needs a network: the hub's cache is an empty folder of this run, so that what a
person has downloaded before cannot change a result.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

_CACHE = tempfile.mkdtemp(prefix="vitscope-tests-")
os.environ.update(  # before torch, gradio, matplotlib and the hub's client are imported
    HF_HOME=_CACHE,
    HF_HUB_DISABLE_TELEMETRY="1",
    GRADIO_ANALYTICS_ENABLED="False",
    MPLBACKEND="Agg",
)
if "PYTEST_XDIST_WORKER" in os.environ:  # several processes share the cores: one thread each
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

from tests.tiny import tiny_encoder, tiny_photo_array, tiny_vit  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from explainers.models.vision_model import VisionModel

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_unconfigure() -> None:
    shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


@pytest.fixture
def tiny() -> torch.nn.Module:
    """A new tiny float64 timm ViT (tests/tiny.py) that a test may change."""
    return tiny_vit()


@pytest.fixture
def tiny_transformer() -> torch.nn.Module:
    """A new tiny float64 ViT built on nn.TransformerEncoder."""
    return tiny_encoder()


@pytest.fixture
def photo_array() -> np.ndarray:
    """An upright RGB photo of 40 rows and 60 columns, uint8."""
    return tiny_photo_array()


@pytest.fixture(scope="session")
def embedded() -> VisionModel:
    """The model in the repository, loaded once; tests must leave it as it is."""
    from explainers import load_model

    return load_model("embedded")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium. Without one the test is skipped, except on CI, where it fails.

    Not of session scope: while playwright runs, its event loop occupies the main thread and
    `asyncio.run` fails there.
    """
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if path is None:
        reason = f"no Chromium on this machine; looked for {', '.join(CHROMIUM_NAMES)}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        # Chromium's sandbox refuses to run as root, and small machines have little /dev/shm.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh browser session (own cookies and storage) with an English, 1280 × 900 page."""
    context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()
