"""What a look will cost, told before it is taken: tokens, pairs of tokens, seconds, megabytes.

The time is that of the model's `Pace`. Memory is counted: what a trace keeps (q and k of each
block), and what stands beside it while the widest block runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from explainers.image import Photo
from explainers.models.sizes import whole_size
from explainers.models.vision_model import VisionModel
from explainers.pace import Pace
from explainers.sentence import Sentence
from explainers.separate_looks import SeparateLooks

MEGA = 1_000_000
_RESIZED = 1 << 23  # pixels up to which a resize is timed


@dataclass(frozen=True)
class Forecast:
    """Of one look at a photo, or of ``looks`` windows of it.

    grid: rows and columns of patches, of a window where there are several; the finest of them in
    a model of several grids, that of the last map where no attention is read. tokens: N, those
    cells and the prefix tokens, of each look. seconds: of all looks together, the photo's
    resizing included; methods come on top. bytes: the most that is held beyond the model and the
    photo. pairs: N², the entries of one head's attention; None where it is not over one grid.
    """

    grid: tuple[int, int]
    tokens: int
    looks: int
    seconds: float
    bytes: float
    pairs: int | None

    @property
    def sentence(self) -> Sentence:
        """All of it in one line."""
        values = {
            "rows": self.grid[0],
            "columns": self.grid[1],
            "tokens": f"{self.tokens:,}",
            "seconds": figures(self.seconds),
            "megabytes": figures(self.bytes / MEGA),
        }
        if self.pairs is None:
            return self._of_cells(values)
        values["pairs"] = f"{self.pairs:,}"
        if self.looks == 1:
            return Sentence(
                "forecast_one",
                "{rows}×{columns} patches: N = {tokens} tokens, N² = {pairs}; about {seconds} s "
                "and {megabytes} MB.",
                **values,
            )
        return Sentence(
            "forecast_windows",
            "{looks} windows of {rows}×{columns} patches: N = {tokens} tokens each, N² = {pairs}; "
            "together about {seconds} s and {megabytes} MB.",
            looks=self.looks,
            **values,
        )

    def _of_cells(self, values: dict[str, object]) -> Sentence:
        """The line for a model whose attention is not that of all tokens with all tokens."""
        if self.looks == 1:
            return Sentence(
                "forecast_cells",
                "{rows}×{columns} cells in the finest grid that is read: {tokens} tokens; about "
                "{seconds} s and {megabytes} MB.",
                **values,
            )
        return Sentence(
            "forecast_cells_windows",
            "{looks} windows of {rows}×{columns} cells in the finest grid that is read: {tokens} "
            "tokens each; together about {seconds} s and {megabytes} MB.",
            looks=self.looks,
            **values,
        )


def forecast(
    vit: VisionModel, photo: Photo, pace: Pace, long_side: int | None = None, whole: bool = True
) -> Forecast:
    """What one look costs: at the whole photo at ``long_side``, or at the model's own size."""
    native = vit.native or vit
    size = native.preprocessing.size
    if whole:
        size = whole_size(photo, native.adapter.patch, long_side)
    grid = native.adapter.grid(size)
    return _told(
        pace,
        grid,
        looks=1,
        seconds=pace.seconds(_tokens(pace, grid)) + _resizing_seconds(native, photo, size),
        held=whole_bytes(native, photo, pace, size),
    )


def forecast_windows(looks: SeparateLooks, pace: Pace) -> Forecast:
    """What the windows of a photo cost together; each one's trace is kept."""
    resizing = _resizing_seconds(looks.model, looks.photo, looks.geometry.input_size)
    return _told(
        pace,
        looks.cells,
        looks=len(looks),
        seconds=len(looks) * pace.seconds(_tokens(pace, looks.cells)) + resizing,
        held=windows_bytes(looks, pace),
    )


def whole_bytes(vit: VisionModel, photo: Photo, pace: Pace, size: tuple[int, int]) -> float:
    """The most that one look at a photo holds, at an input of (height, width) pixels."""
    return max(pass_bytes(vit, pace, size), resizing_bytes(photo, size))


def pass_bytes(vit: VisionModel, pace: Pace, size: tuple[int, int]) -> float:
    """What one pass over an input of (height, width) pixels holds, its trace included."""
    tokens = _tokens(pace, vit.adapter.grid(size))
    held = pace.kept_bytes(tokens) + pace.beside * tokens
    return held + pace.beside_pixel * size[0] * size[1]


def windows_bytes(looks: SeparateLooks, pace: Pace) -> float:
    """The most that the windows of a photo hold together."""
    tokens = _tokens(pace, looks.cells)
    (height, width), size = looks.model.preprocessing.size, looks.geometry.input_size
    kept = len(looks) * (pace.kept_bytes(tokens) + pace.beside_pixel * height * width)
    held = kept + pace.beside * tokens + 3 * size[0] * size[1]
    return max(held, resizing_bytes(looks.photo, size))


def _tokens(pace: Pace, grid: tuple[int, int]) -> int:
    """Of the model's own grid, by which its pace is told."""
    return pace.prefix + grid[0] * grid[1]


def _told(pace: Pace, grid: tuple[int, int], looks: int, seconds: float, held: float) -> Forecast:
    """A forecast that names the finest grid of the blocks."""
    one = pace.finer == 1
    rows, columns = grid if one or not pace.finer else (round(n * pace.finer) for n in grid)
    tokens = pace.prefix + rows * columns
    return Forecast((rows, columns), tokens, looks, seconds, held, tokens**2 if one else None)


def resizing_bytes(photo: Photo, size: tuple[int, int]) -> float:
    """Pillow's copy of the photo, what it makes between rows and columns, and the result."""
    return 4.0 * (photo.height * photo.width + photo.height * size[1] + 2 * size[0] * size[1])


def _resizing_seconds(vit: VisionModel, photo: Photo, size: tuple[int, int]) -> float:
    """Measured: it depends on the photo and the filter. Beside a very large pass it is nothing."""
    if size[0] * size[1] > _RESIZED:
        return 0.0
    whole = replace(vit.preprocessing, size=size, crop_mode="squash", crop_pct=1.0)
    start = time.perf_counter()
    whole(photo)
    return time.perf_counter() - start


def figures(value: float) -> str:
    """Two figures: a forecast is no more exact than that."""
    if value >= 100:
        return f"{round(value, -1):,.0f}"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
