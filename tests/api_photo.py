"""A small photo as a file, and as programs send it to the endpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.tiny import tiny_photo_array

gradio_client = pytest.importorskip("gradio_client")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photos") / "photo.png"
    Image.fromarray(tiny_photo_array()).save(path)
    return path


@pytest.fixture(scope="module")
def photo(file: Path) -> Any:
    return gradio_client.handle_file(str(file))
