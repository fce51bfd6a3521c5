"""What charts on the page have in common: ink for light and dark pages, words in any language."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from explainers.render.fonts import chinese_font

INK = (117, 117, 117)
"""Grey with a contrast of at least 4.5 to 1 on white and on black alike."""

LINES = ("#0072b2", "#b87a00", "#009e73", "#c06a9a")
"""After Okabe and Ito, told apart by colour-blind eyes; 3 to 1 at least on white and on black."""

WORDS: Mapping[str, str] = {
    "chart_row": "input patch row",
    "chart_row_short": "row",
    "chart_column": "input patch column",
    "chart_cosine": "cosine similarity",
    "chart_cosine_short": "cosine",
    "chart_operations": "operations of one pass (10⁹)",
    "chart_matrices": "N × N attention of a block (MiB)",
    "chart_side": "side of the photo (px)",
    "chart_predicted": "predicted at {rate}·10⁹ operations/s",
    "chart_measured": "measured here",
    "chart_pass": "one pass (ms)",
    "chart_cnn": "3 × 3 CNN",
    "chart_can_see": "ViT: can see",
    "chart_looks": "ViT: looks (mean)",
    "chart_layer": "after layer or block (from 1)",
    "chart_pixels": "pixels",
}
"""What charts say, in English; a page hands in the same keys in its own language."""


def transparent(figure: Figure) -> Image.Image:
    """The figure as an RGBA picture without paper, its text, axes and ticks in `INK`."""
    ink = "#{:02x}{:02x}{:02x}".format(*INK)
    family = [name for name in ("DejaVu Sans", chinese_font()) if name]
    figure.patch.set_alpha(0)
    for axes in figure.axes:
        axes.patch.set_alpha(0)
        axes.tick_params(which="both", colors=ink)
        for spine in axes.spines.values():
            spine.set_color(ink)
    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_color(ink)
            text.set_fontfamily(family)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba()).copy())
