"""A terminal's `python -m explainers`: a tiny model's weights file, photos, runs, results."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import save_file

from explainers.__main__ import main
from explainers.models.vision_model import VisionModel
from tests.tiny import DEPTH, HEADS, LABELS, PATCH, WIDTH, tiny_photo_array, tiny_vit

Run = Callable[..., int]


def save_model(folder: Path, classes: int = len(LABELS), labels: bool = True) -> Path:
    """A tiny model as a weights file with a config.json beside it."""
    folder.mkdir()
    arguments = {
        "img_size": 16,
        "patch_size": PATCH,
        "embed_dim": WIDTH,
        "depth": DEPTH,
        "num_heads": HEADS,
        "num_classes": classes,
    }
    config = {
        "architecture": "vit_tiny_patch16_224",
        "model_args": arguments,
        "input_size": [3, 16, 16],
        "num_classes": classes,
    }
    if labels:
        config["label_names"] = list(LABELS)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tiny_vit(num_classes=classes).float().state_dict(), folder / "tiny.safetensors")
    return folder / "tiny.safetensors"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("weights") / "tiny")


def photo(path: Path, seed: int = 0, size: tuple[int, int] = (18, 24)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(tiny_photo_array(*size, seed=seed)).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four photos, in folders named as a class, and one in none."""
    root = tmp_path / "photos"
    photo(root / "tabby" / "a.png", 1)
    photo(root / "tabby" / "b.png", 2)
    photo(root / "espresso" / "a.png", 3)
    photo(root / "elsewhere" / "a.png", 4)
    return root


@pytest.fixture
def run(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`explain` with the tiny model into tmp_path/out, one quick method unless told."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, model: object = weights) -> int:
        given = [str(argument) for argument in arguments]
        if "--methods" not in given:
            given += ["--methods", "rollout"]
        if "--out" not in given:
            given += ["--out", str(tmp_path / "out")]
        return main(["explain", *given, "--model", str(model)])

    return call


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of photos in every pass of any model."""
    counted: list[int] = []
    plain = VisionModel.logits

    def logits(self: VisionModel, pixels):  # type: ignore[no-untyped-def]
        counted.append(len(pixels))
        return plain(self, pixels)

    monkeypatch.setattr(VisionModel, "logits", logits)
    return counted


def rows(out: Path) -> dict[str, dict[str, str]]:
    with open(out / "index.csv", encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def made(out: Path) -> list[str]:
    """All files below a folder, by their paths from it."""
    return sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
