"""The run in numbers and as a picture: history.csv and curves.png."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

COLUMNS = (
    *("epoch", "step", "rate", "train_loss", "train_accuracy"),
    *("test_loss", "test_accuracy", "seconds"),
)
"""accuracy: the part of images named right, 0..1; while training, of augmented images.
rate: of the epoch's last step. seconds: of the epoch, its test included."""


def write_csv(path: Path, history: Sequence[dict[str, float]]) -> None:
    """One row an epoch, under the names in `COLUMNS`."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(history)


def draw(path: Path, history: Sequence[dict[str, float]]) -> None:
    """Loss and accuracy by epoch, trained and tested, side by side."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = [row["epoch"] for row in history]
    for axes, kind, factor in ((left, "loss", 1.0), (right, "accuracy", 100.0)):
        for split, colour in (("train", "#7a7a7a"), ("test", "#3b5bdb")):
            values = [factor * row[f"{split}_{kind}"] for row in history]
            axes.plot(epochs, values, marker=".", color=colour, label=split)
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel(kind if kind == "loss" else "accuracy, %")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
