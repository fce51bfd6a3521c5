"""Tiny ImageNet, made smaller: three classes with their WordNet ids, and a model to tune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from explainers import wrap_model
from tests.tiny import tiny_vit
from training.models import fine_tuned
from training.plan import Plan

WNIDS = ("n03000000", "n01000000", "n02000000")  # not sorted, as in Tiny-ImageNet's own list
WORDS = ("lamp, table lamp", "frog", "crane")
PLAN = Plan(epochs=2, batch=4, rate=3e-3, warmup=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes as Tiny-ImageNet lays them out, 4 images each to train and 2 to test."""
    folder = tmp_path_factory.mktemp("tiny-imagenet")
    random, lines = np.random.default_rng(0), []

    def save(place: Path, channel: int) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 150, (16, 16, 3), dtype=np.uint8)
        pixels[..., channel] += 90
        Image.fromarray(pixels).save(place, "PNG")

    for channel, wnid in enumerate(WNIDS):
        for number in range(4):
            save(folder / "train" / wnid / "images" / f"{wnid}_{number}.JPEG", channel)
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text("boxes\n")
    for number, channel in enumerate((2, 0, 1, 1, 2, 0)):
        save(folder / "val" / "images" / f"val_{number}.JPEG", channel)
        lines.append(f"val_{number}.JPEG\t{WNIDS[channel]}\t0\t0\t9\t9\n")
    save(folder / "test" / "images" / "test_0.JPEG", 0)  # handed out without classes
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    rows = [f"{wnid}\t{word}\n" for wnid, word in zip(WNIDS, WORDS, strict=True)]
    (folder / "words.txt").write_text("n00000001\tentity\n" + "".join(rows))
    return folder


def tuned(frozen_blocks: int = 0, **arguments: Any) -> Any:
    """A tiny timm model with a new head, to be fine-tuned as a whole."""
    module = tiny_vit(dtype=torch.float32, dynamic_img_size=True, **arguments)
    return fine_tuned(wrap_model(module), WNIDS, False, frozen_blocks)
