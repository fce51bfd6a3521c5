"""Vectors as strips of colour, and maps of patches on the picture that the model got."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from explainers.render.colours import SIGNED, UNSIGNED, colour_table

CLASSES = ((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233))
"""Colours for classes that colour-blind eyes tell apart (Okabe and Ito)."""

OTHER = (150, 150, 150)
"""For all further classes."""

SIDE = 640
"""Pixels of the longer side of a picture with patches."""

LINE, FRAME = (255, 255, 255), (255, 214, 0)


def strip(values: np.ndarray, limit: float | None = None, signed: bool = True) -> np.ndarray:
    """A vector (n,) or matrix (m, n) as colours, uint8 (m, n, 3).

    Signed: blue below zero, red above, white at zero, −limit … limit; else 0 … limit.
    limit: the largest magnitude where none is given.
    """
    values = np.atleast_2d(np.asarray(values, np.float64))
    top = float(np.abs(values).max()) if limit is None else limit
    share = values / top if top > 0 else np.zeros_like(values)
    table = colour_table(SIGNED[0] if signed else UNSIGNED[0])
    place = np.clip((share + 1) / 2 if signed else share, 0, 1)
    return table[np.rint(place * (len(table) - 1)).astype(int)]


def picture_size(grid: tuple[int, int], side: int = SIDE) -> tuple[int, int]:
    """(width, height) in pixels of `on_picture`: whole pixels a cell."""
    rows, columns = grid
    zoom = max(1, side // max(rows, columns))
    return columns * zoom, rows * zoom


def on_picture(
    picture: np.ndarray,
    grid: tuple[int, int],
    *,
    cells: np.ndarray | None = None,
    alpha: float = 0.65,
    lines: bool = True,
    chosen: tuple[int, int] | None = None,
    side: int = SIDE,
) -> Image.Image:
    """A picture (h, w, 3) uint8 that ``grid`` cells cover, enlarged to about ``side`` pixels.

    cells: a colour for each cell (rows, columns, 3), laid over it with ``alpha``. lines: the
    cells' borders. chosen: the (row, column) with a frame.
    """
    rows, columns = grid
    width, height = picture_size(grid, side)
    zoom = width // columns
    image = Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC)
    if cells is not None:
        over = Image.fromarray(cells.astype(np.uint8))
        over = over.resize((width, height), Image.Resampling.NEAREST)
        image = Image.blend(image.convert("L").convert("RGB"), over, alpha)
    if lines and zoom >= 6:
        veil = Image.new("RGBA", image.size)
        pen = ImageDraw.Draw(veil)
        for r in range(1, rows):
            pen.line([(0, r * zoom), (width, r * zoom)], (*LINE, 130))
        for c in range(1, columns):
            pen.line([(c * zoom, 0), (c * zoom, height)], (*LINE, 130))
        image = Image.alpha_composite(image.convert("RGBA"), veil).convert("RGB")
    if chosen is not None:
        r, c = chosen
        box = (c * zoom - 1, r * zoom - 1, (c + 1) * zoom + 1, (r + 1) * zoom + 1)
        pen = ImageDraw.Draw(image)
        pen.rectangle(tuple(v + d for v, d in zip(box, (-2, -2, 2, 2), strict=True)), outline=0)
        pen.rectangle(box, outline=FRAME, width=3)
    return image


def class_colours(answers: np.ndarray, count: int = len(CLASSES)) -> tuple[np.ndarray, list[int]]:
    """Each cell's class (rows, columns) as colours (rows, columns, 3), and the classes that
    have a colour of their own: the ``count`` most frequent ones, most frequent first."""
    classes, numbers = np.unique(answers, return_counts=True)
    named = [int(c) for c in classes[np.argsort(-numbers, kind="stable")][:count]]
    cells = np.empty((*answers.shape, 3), np.uint8)
    cells[:] = OTHER
    for colour, index in zip(CLASSES, named, strict=False):
        cells[answers == index] = colour
    return cells, named
