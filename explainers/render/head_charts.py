"""One dot a head over the depth of the model: the ViT paper's figure 7, right."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
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
    draw_heads(figure.subplots(), values, label, limit)
    return to_image(figure)


def draw_heads(
    axes: Axes,
    values: np.ndarray,
    label: str,
    limit: float | None = None,
    size: float = 8,
    legend: bool = True,
) -> None:
    """The same into given axes; size: of the legend's letters in points, which dots follow.

    NaN in ``values``: a head that the block does not have.
    """
    blocks = np.arange(len(values))
    for head in range(values.shape[1]):
        axes.plot(blocks, values[:, head], "o", markersize=size / 2, alpha=0.75, color="#2c7fb8")
    mean = np.nanmean(values, axis=1)
    axes.plot(blocks, mean, "-", linewidth=size / 5.5, color="#d95f0e", label="mean of the heads")
    axes.set_xlabel("block")
    axes.set_ylabel(label)
    axes.set_xticks(blocks[:: max(1, len(blocks) // 12)])
    axes.set_ylim(0, limit or float(np.nanmax(values)) * 1.08 or 1.0)
    axes.grid(alpha=0.25)
    if legend:
        axes.legend(frameon=False, fontsize=size)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
