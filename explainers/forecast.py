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

    grid: rows and columns of patches, of a window where there are several. tokens: N, of each
    look, prefix tokens included. seconds: of all looks together, the photo's resizing included;
    methods come on top. bytes: the most that is held beyond the model and the photo.
    """

    grid: tuple[int, int]
    tokens: int
    looks: int
    seconds: float
    bytes: float

    @property
    def pairs(self) -> int:
        """N²: the entries of one head's attention."""
        return self.tokens**2

    @property
    def sentence(self) -> Sentence:
        """All of it in one line."""
        values = {
            "rows": self.grid[0],
            "columns": self.grid[1],
            "tokens": f"{self.tokens:,}",
            "pairs": f"{self.pairs:,}",
            "seconds": figures(self.seconds),
            "megabytes": figures(self.bytes / MEGA),
        }
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


def forecast(
    vit: VisionModel, photo: Photo, pace: Pace, long_side: int | None = None, whole: bool = True
) -> Forecast:
    """What one look costs: at the whole photo at ``long_side``, or at the model's own size."""
    native = vit.native or vit
    size = native.preprocessing.size
    if whole:
        size = whole_size(photo, native.adapter.patch, long_side)
    rows, columns = size[0] // native.adapter.patch[0], size[1] // native.adapter.patch[1]
    tokens = pace.prefix + rows * columns
    held = pace.kept_bytes(tokens) + pace.beside * tokens
    pixels = size[0] * size[1]
    resizing = _resizing_bytes(photo, size)
    return Forecast(
        grid=(rows, columns),
        tokens=tokens,
        looks=1,
        seconds=pace.seconds(tokens) + _resizing_seconds(native, photo, size),
        bytes=max(held + pace.beside_pixel * pixels, resizing),
    )


def forecast_windows(looks: SeparateLooks, pace: Pace) -> Forecast:
    """What the windows of a photo cost together; each one's trace is kept."""
    rows, columns = looks.cells
    tokens = pace.prefix + rows * columns
    (height, width), size = looks.model.preprocessing.size, looks.geometry.input_size
    kept = len(looks) * (pace.kept_bytes(tokens) + pace.beside_pixel * height * width)
    resizing = _resizing_bytes(looks.photo, size)
    return Forecast(
        grid=(rows, columns),
        tokens=tokens,
        looks=len(looks),
        seconds=len(looks) * pace.seconds(tokens)
        + _resizing_seconds(looks.model, looks.photo, size),
        bytes=max(kept + pace.beside * tokens + 3 * size[0] * size[1], resizing),
    )


def _resizing_bytes(photo: Photo, size: tuple[int, int]) -> float:
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
