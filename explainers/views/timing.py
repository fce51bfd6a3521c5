"""How long a model's forward pass takes on this machine, at several sizes of the photo."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from explainers.methods.scoring import Progress
from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from explainers.models.vit import VisionTransformer
from explainers.views.cost import Shape, cost, shape_of


@dataclass(frozen=True)
class Timing:
    """side: of the square photo, in pixels. seconds: of one forward pass, the fastest of
    ``REPEATS``. own: the model itself ran; else, where it takes one size only, a reference ViT
    of the same shape with random weights, which does the same arithmetic."""

    side: int
    seconds: float
    own: bool


REPEATS = 3


def measure_passes(vit: VisionModel, sides: Sequence[int], progress: Progress) -> list[Timing]:
    """Time one photo of each size, after a first pass that does not count.

    progress(done, total) is called before every pass and may raise Cancelled.
    """
    shape, total = shape_of(vit), len(sides) * (REPEATS + 1)
    found = []
    for number, side in enumerate(sides):
        done = number * (REPEATS + 1)
        progress(done, total)
        sized = _at(vit, side)
        run = _twin(shape, side).to(vit.device, vit.dtype) if sized is None else sized.logits
        pixels = torch.zeros(1, 3, side, side, device=vit.device, dtype=vit.dtype)
        seconds = []
        for again in range(REPEATS + 1):
            progress(done + again, total)
            seconds.append(_seconds(run, pixels))
        found.append(Timing(side, min(seconds[1:]), own=sized is not None))
    progress(total, total)
    return found


def speed(shape: Shape, timings: Sequence[Timing]) -> float:
    """Operations a second: the median over the measured sizes, so that predictions can stand
    beside measurements."""
    rates = sorted(cost(shape, t.side, t.side).operations / t.seconds for t in timings)
    return rates[len(rates) // 2]


@torch.no_grad()
def _seconds(run: Callable[[Tensor], Tensor], pixels: Tensor) -> float:
    start = time.perf_counter()
    run(pixels)
    if pixels.is_cuda:
        torch.cuda.synchronize(pixels.device)
    return time.perf_counter() - start


def _at(vit: VisionModel, side: int) -> VisionModel | None:
    """The model for square photos of this size; None where it takes one size only."""
    try:
        return vit.at_size(side)
    except ModelError:
        return None


def _twin(shape: Shape, side: int) -> VisionTransformer:
    """A reference ViT of the same measures, whose weights do not matter."""
    heads = shape.heads if shape.width % shape.heads == 0 else 1
    with torch.random.fork_rng(devices=[]):  # it draws weights, and nobody's numbers may change
        return VisionTransformer(
            side,
            shape.patch,
            shape.width,
            shape.depth,
            heads,
            shape.mlp_width,
            max(1, shape.classes),
        ).eval()
