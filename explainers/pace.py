"""How fast a model runs on this machine, measured once, and how much it holds.

A Vision Transformer does two kinds of work: what is done for each token (projections, MLP,
norms), and attention, which is done for each pair of tokens. `measure_pace` times both, in one
short pass of the model and one attention call; `Pace` then tells the time of any size.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.capture import Capture
from explainers.models.vision_model import VisionModel

_TOKENS = 800  # about so many go through the timed pass: fewer are slower each
_PAIRED = 1024  # tokens of the timed attention call
_TRIES = 3


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
