"""What a look will cost, told before it is taken: tokens, pairs of tokens, seconds, megabytes.

A Vision Transformer does two kinds of work: what is done for each token (projections, MLP,
norms), and attention, which is done for each pair of tokens. `measure_pace` times both once, in
one short pass of the model and one attention call; `Pace` then tells the time of any size. Memory
is counted: what a trace keeps (q and k of each block), and what stands beside it while the widest
block runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.capture import Capture
from explainers.free_memory import free_bytes
from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.sizes import whole_size
from explainers.models.vision_model import VisionModel
from explainers.sentence import Sentence
from explainers.separate_looks import SeparateLooks

SHARE = 0.8
"""The part of the free memory that a look may take."""

MEGA = 1_000_000
_TOKENS = 800  # about so many go through the timed pass: fewer are slower each
_PAIRED = 1024  # tokens of the timed attention call
_TRIES = 3
_RESIZED = 1 << 23  # pixels up to which a resize is timed


@dataclass(frozen=True)
class Pace:
    """How fast a model runs here, and how much it holds.

    per_token, per_pair: seconds of all blocks for a token and for a pair of tokens. kept,
    kept_pairs: bytes that a trace keeps for each. beside, beside_pixel: bytes that stand beside
    them while a pass runs, for a token and for a pixel of the input. prefix: tokens that are no
    patches.
    """

    per_token: float
    per_pair: float
    kept: float
    kept_pairs: float
    beside: float
    beside_pixel: float
    prefix: int

    def seconds(self, tokens: int) -> float:
        return self.per_token * tokens + self.per_pair * tokens**2

    def kept_bytes(self, tokens: int) -> float:
        return self.kept * tokens + self.kept_pairs * tokens**2


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
            "seconds": _figures(self.seconds),
            "megabytes": _figures(self.bytes / MEGA),
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


def measure_pace(vit: VisionModel) -> Pace:
    """Time the model at its own size: about five of its passes, a fraction of a second for most."""
    vit = vit.native or vit
    vit.supports("attention", row=0)  # the check of a first trace, so that no look pays for it
    size = vit.preprocessing.size
    rows, columns = vit.adapter.grid(size)
    tokens = vit.adapter.prefix + rows * columns
    batch = max(1, round(_TOKENS / tokens))
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(batch, 3, *size, generator=generator).to(vit.device, vit.dtype)
    capture = Capture(vit.adapter)
    with torch.inference_mode(False), torch.no_grad():
        with capture:  # warms the machine up, and shows the attention calls
            vit.logits(pixels[:1])
        whole = _timed(vit, lambda: vit.logits(pixels))
        per_pair = _attention_seconds(vit, capture)
    calls = capture.calls
    kept = sum(call.q[0, :, 0].nbytes + call.k[0, :, 0].nbytes for call in calls)
    masks = sum(call.mask.nbytes for call in calls if call.mask is not None) / tokens**2
    item = torch.empty(0, dtype=vit.dtype).element_size()
    width, widest = _widths(vit)
    return Pace(
        per_token=max(whole / batch - per_pair * tokens**2, 0.0) / tokens,
        per_pair=per_pair,
        kept=kept,
        kept_pairs=masks,
        beside=item * (3 * width + 2 * widest),
        beside_pixel=3 * (4 + item),
        prefix=vit.adapter.prefix,
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


def demand_memory(
    vit: VisionModel, photo: Photo, pace: Pace, wanted: Forecast, free: int | None = None
) -> None:
    """Raise ModelError where a look would take over 80 % of the free memory.

    The sentence proposes the largest long side of a whole look that fits. free: bytes, measured
    where None.
    """
    if free is None:
        free = free_bytes(vit.device)
    if free is None or wanted.bytes <= SHARE * free:
        return
    largest = largest_long_side(vit, photo, pace, SHARE * free)
    values = {"needed": _figures(wanted.bytes / MEGA), "free": _figures(free / MEGA)}
    if largest is None:
        raise ModelError(
            Sentence(
                "memory_none",
                "This look would take about {needed} MB, and of memory {free} MB are free: not "
                "even the smallest one fits. Close other programs, or take a smaller model.",
                **values,
            )
        )
    raise ModelError(
        Sentence(
            "memory_large",
            "This look would take about {needed} MB, more than 80 % of the {free} MB of memory "
            "that are free; the largest that fits is a long side of {largest} pixels.",
            largest=largest,
            **values,
        )
    )


def largest_long_side(vit: VisionModel, photo: Photo, pace: Pace, room: float) -> int | None:
    """The longest side, in whole patches, of a look at the whole photo in ``room`` bytes."""
    patch = max((vit.native or vit).adapter.patch)

    def fits(patches: int) -> bool:
        size = whole_size(photo, vit.adapter.patch, patches * patch)
        tokens = pace.prefix + size[0] * size[1] // (vit.adapter.patch[0] * vit.adapter.patch[1])
        held = pace.kept_bytes(tokens) + pace.beside * tokens
        return held + pace.beside_pixel * size[0] * size[1] <= room

    if not fits(1):
        return None
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:  # low fits, high does not
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * patch


def _attention_seconds(vit: VisionModel, capture: Capture) -> float:
    """Seconds of all blocks' attention for a pair of tokens: one call of many tokens, timed."""
    seconds = 0.0
    timed: dict[tuple[int, int, bool], float] = {}
    for call in capture.calls[: vit.adapter.depth]:
        heads, width = call.q.shape[1], call.q.shape[3]
        kind = heads, width, call.mask is not None
        if kind not in timed:
            q = torch.ones(1, heads, _PAIRED, width, device=vit.device).to(vit.dtype)
            mask = q.new_zeros(1, heads, _PAIRED, _PAIRED) if kind[2] else None
            attend = partial(F.scaled_dot_product_attention, q, q, q, attn_mask=mask)
            timed[kind] = _timed(vit, attend)
        seconds += timed[kind] / _PAIRED**2
    return seconds


def _widths(vit: VisionModel) -> tuple[int, int]:
    """The width of the blocks' stream, and of the widest thing made of it (the MLP's inside)."""
    projections = (cast(Tensor, block.projection.weight) for block in vit.adapter.blocks)
    width = max(weight.shape[0] for weight in projections)
    sides = [
        (layer.in_features, layer.out_features)
        for layer in vit.module.modules()
        if isinstance(layer, nn.Linear) and layer.out_features != vit.classes
    ]
    return width, max((max(pair) for pair in sides if width in pair), default=width)


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


def _timed(vit: VisionModel, work: Callable[[], object]) -> float:
    """Seconds of the middle one of a few runs: what else the machine does goes on meanwhile."""
    times = []
    for _ in range(_TRIES):
        _finish(vit.device)
        start = time.perf_counter()
        work()
        _finish(vit.device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _finish(device: torch.device) -> None:
    """Wait for what was begun on a device that works on its own."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def _figures(value: float) -> str:
    """Two figures: a forecast is no more exact than that."""
    if value >= 100:
        return f"{round(value, -1):,.0f}"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
