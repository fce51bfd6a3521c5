"""One dot a head over the depth of the model: the ViT paper's figure 7, right."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from explainers.render.figure import to_image

DPI = 150


def head_chart(values: np.ndarray, label: str, limit: float | None = None) -> Image.Image:
    """values (blocks, heads) as dots over the block's number, with the mean of each block.

    label: what the vertical axis counts, with its unit. limit: the top of the axis, for charts
    that are to be compared.
    """
    figure = Figure(figsize=(5.2, 3.4), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    blocks = np.arange(len(values))
    for head in range(values.shape[1]):
        axes.plot(blocks, values[:, head], "o", markersize=4, alpha=0.75, color="#2c7fb8")
    axes.plot(
        blocks, values.mean(1), "-", linewidth=1.5, color="#d95f0e", label="mean of the heads"
    )
    axes.set_xlabel("block")
    axes.set_ylabel(label)
    axes.set_xticks(blocks[:: max(1, len(blocks) // 12)])
    axes.set_ylim(0, limit or float(values.max()) * 1.08 or 1.0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return to_image(figure)
