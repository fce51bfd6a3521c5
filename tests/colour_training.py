"""Training on noisy pictures whose colour is their class: data, runs, flags and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from training.data import read_data
from training.loop import Run
from training.models import new_learner
from training.plan import Plan

CLASSES = ("blue", "green", "red")
SMALL: dict[str, Any] = {
    **{"image_size": 8, "patch_size": 4, "width": 16, "depth": 2, "heads": 2, "mlp_width": 16}
}
FLAGS = [w for key, value in SMALL.items() for w in (f"--{key.replace('_', '-')}", str(value))]
PLAN = Plan(epochs=3, batch=8, rate=3e-3, warmup=2, dropout=0.1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noisy pictures of 8 × 8 pixels whose colour is their class: 16 to train, 4 to test each."""
    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("colours")
    for split, count in (("train", 16), ("test", 4)):
        for channel, name in ((2, "blue"), (1, "green"), (0, "red")):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 150, (8, 8, 3), dtype=np.uint8)
                pixels[..., channel] += 60
                Image.fromarray(pixels).save(folder / split / name / f"{number:02}.png")
    return folder


def run_of(data: Path, out: Path, plan: Plan = PLAN, **more: Any) -> Run:
    arguments = {**SMALL, "dropout": plan.dropout}
    learner = new_learner("reference_vit", arguments, CLASSES, plan.seed)
    return Run(learner, read_data(data), plan, out, quiet=True, **more)


def words(data: Path, out: Path, *more: str, command: str = "train") -> list[str]:
    flags = FLAGS if command == "train" else []
    start = [command, "--data", str(data), "--out", str(out), "--quiet", "--batch", "8"]
    return [*start, *flags, "--warmup", "2", *more]
