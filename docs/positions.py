"""What ViTs trained with 1D, 2D, relative and no positions learned of place: docs/positions.png,
and a table: python docs/positions.py --data cifar10.tar.gz 1d/model.safetensors 2d/… …"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from explainers import VisionModel, load_model
from explainers.models.positions import NoPositions, Relative
from explainers.render.charts import draw_positions, position_mosaic
from explainers.views.positions import position_similarity
from training.__main__ import matched
from training.data import read_split
from training.loop import evaluate

WIDE = 2.6  # inches a picture


def kind_of(vit: VisionModel) -> str:
    return str(vit.module.model_args.get("positions", "1d"))


def relative_biases(positions: Relative) -> np.ndarray:
    """Bias by offset (down, across) from the query to the key, the mean of the heads: square."""
    table = positions.table[:-3].detach().mean(1).numpy()  # the last three are CLS's
    side = math.isqrt(len(table))
    # An offset is query minus key; turned round, the key lies where the picture shows it.
    return table.reshape(side, side)[::-1, ::-1]


def draw(axes: Axes, vit: VisionModel) -> None:
    positions: NoPositions = vit.module.positions
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(kind_of(vit), fontsize=9)
    if isinstance(positions, Relative):
        biases = relative_biases(positions)
        limit, reach = float(np.abs(biases).max()), len(biases) // 2
        extent = (-reach - 0.5, reach + 0.5, reach + 0.5, -reach - 0.5)
        picture = axes.imshow(biases, cmap="RdBu_r", vmin=-limit, vmax=limit, extent=extent)
        axes.set_xlabel("bias by offset of the key, mean of heads", fontsize=7)
        axes.figure.colorbar(picture, ax=axes, shrink=0.7).ax.tick_params(labelsize=7)
    elif vit.adapter.positions_support():
        picture = draw_positions(axes, position_mosaic(position_similarity(vit), 500)[0])
        axes.set_xlabel("cosine similarity of each with all", fontsize=7)
        axes.figure.colorbar(picture, ax=axes, shrink=0.7).ax.tick_params(labelsize=7)
    else:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "nothing is learned\nof place", ha="center", fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="test images, for the table")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/positions.png")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    vits = [load_model(name, device="cpu") for name in options.models]
    figure = Figure(figsize=(WIDE * len(vits), WIDE), layout="constrained")
    for axes, vit in zip(figure.subplots(1, len(vits), squeeze=False)[0], vits, strict=True):
        draw(axes, vit)
    figure.savefig(options.out, dpi=150)
    if options.data is None:
        return
    images = read_split(options.data)
    sys.stdout.write("| positions | parameters | test accuracy |\n| --- | --- | --- |\n")
    for vit in vits:
        found = evaluate(vit.module, matched(images, vit), vit.preprocessing)
        count = sum(p.numel() for p in vit.module.parameters())
        sys.stdout.write(f"| {kind_of(vit)} | {count:,} | {100 * found['top1']:.1f} % |\n")


if __name__ == "__main__":
    main()
