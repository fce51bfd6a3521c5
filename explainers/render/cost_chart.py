"""Charts of what a ViT costs, and of how far a layer sees in a CNN and in a ViT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from explainers.render.chart_style import INK, LINES, WORDS, transparent
from explainers.views.cost import Shape, convolution_reach, cost, with_patch
from explainers.views.timing import Timing, speed

DPI = 170
DASHES = ("-", "--", "-.", ":")
"""Lines differ in these besides their colours."""

_DOT = tuple(part / 255 for part in INK)
LARGEST = 1024
"""Side of the largest photo drawn, in pixels."""


def cost_chart(
    shape: Shape, height: int, width: int, words: Mapping[str, str] = WORDS
) -> Image.Image:
    """Operations and memory of a forward pass against the side of a square photo.

    A line for each patch size: half, the model's own, double, four times. The dot is a photo
    of height × width pixels.
    """
    figure = Figure(figsize=(4.3, 5.0), dpi=DPI, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    largest = max(LARGEST, height, width)
    for number, patch in enumerate(_patches(shape.patch)):
        sides = np.unique(np.geomspace(max(32, patch), largest, 40).astype(int) // patch * patch)
        found = [cost(with_patch(shape, patch), int(side), int(side)) for side in sides]
        style: dict[str, Any] = {
            "color": LINES[number],
            "linestyle": DASHES[number],
            "label": f"P = {patch}",
        }
        upper.plot(sides, [c.operations / 1e9 for c in found], **style)
        lower.plot(sides, [c.matrices / 2**20 for c in found], **style)
    now = cost(shape, height, width)
    side = (height * width) ** 0.5
    upper.plot([side], [now.operations / 1e9], "o", color=_DOT)
    lower.plot([side], [now.matrices / 2**20], "o", color=_DOT)
    upper.set_ylabel(words["chart_operations"])
    lower.set_ylabel(words["chart_matrices"])
    _log(upper, "")
    _log(lower, words["chart_side"])
    upper.legend(frameon=False, fontsize=8)
    return transparent(figure)


def time_chart(
    shape: Shape, timings: Sequence[Timing], words: Mapping[str, str] = WORDS
) -> Image.Image:
    """Seconds of a forward pass against the side of the photo: predicted line, measured dots.

    Predicted: the counted operations at this machine's median rate.
    """
    figure = Figure(figsize=(4.3, 3.1), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    rate = speed(shape, timings)
    low, high = timings[0].side, timings[-1].side
    sides = np.unique(np.geomspace(low, high, 40).astype(int) // shape.patch * shape.patch)
    predicted = [1000 * cost(shape, int(s), int(s)).operations / rate for s in sides]
    label = words["chart_predicted"].format(rate=f"{rate / 1e9:.0f}")
    axes.plot(sides, predicted, "-", color=LINES[0], label=label)
    measured = [1000 * t.seconds for t in timings]
    axes.plot(
        [t.side for t in timings], measured, "o", color=LINES[1], label=words["chart_measured"]
    )
    axes.set_ylabel(words["chart_pass"])
    _log(axes, words["chart_side"])
    axes.legend(frameon=False, fontsize=8)
    return transparent(figure)


def reach_chart(
    depth: int, side: int, distances: np.ndarray | None, words: Mapping[str, str] = WORDS
) -> Image.Image:
    """How far one value sees after each layer, in pixels of the model's input.

    A stack of 3 × 3 convolutions sees 2 pixels more a layer; a ViT's token may see all of the
    photo (``side`` pixels) from its first block on. distances: how far its heads look on
    average, (blocks, heads), where a photo was traced.
    """
    figure = Figure(figsize=(4.3, 3.1), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    layers = np.arange(depth + 1)
    axes.plot(
        layers,
        convolution_reach(depth),
        "s-",
        color=LINES[0],
        markersize=4,
        label=words["chart_cnn"],
    )
    sees = [1, *[side] * depth]
    axes.step(layers, sees, "--", where="post", color=LINES[1], label=words["chart_can_see"])
    if distances is not None:
        for head in range(distances.shape[1]):
            axes.plot(layers[1:], distances[:, head], ".", color=LINES[2], alpha=0.7)
        mean = distances.mean(1)
        axes.plot(layers[1:], mean, "-", color=LINES[2], label=words["chart_looks"])
    axes.set_ylim(0, 1.05 * side)
    axes.set_xlabel(words["chart_layer"])
    axes.set_ylabel(words["chart_pixels"])
    axes.set_xticks(layers[:: max(1, depth // 12)])
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    _plain(axes)
    return transparent(figure)


def _patches(own: int) -> list[int]:
    return sorted({max(1, own // 2), own, 2 * own, 4 * own})


def _log(axes: Any, label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    low, high = axes.get_xlim()
    ticks = [t for t in (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192) if low <= t <= high]
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.set_xlabel(label)
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
