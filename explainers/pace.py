"""How fast a model runs on this machine, measured once, and how much it holds.

A Vision Transformer does two kinds of work: what is done for each token (projections, MLP,
norms), and attention, which is done for each pair of tokens. `measure_pace` times both, in one
short pass of the model and one attention call; `Pace` then tells the time of any size.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn import functional as F

from explainers.attention_call import AttentionCall
from explainers.capture import Capture
from explainers.held import beside_bytes, kept_bytes
from explainers.models.vision_model import VisionModel
from explainers.windowed_call import Call

_TOKENS = 800  # about so many go through the timed pass: fewer are slower each
_PAIRED = 1024  # tokens of the timed attention call
_TRIES = 3


@dataclass(frozen=True)
class Pace:
    """How fast a model runs here, and how much it holds.

    Tokens are those of the model's own grid: its last one, where there are several. per_token,
    per_pair: seconds of all blocks for a token and for a pair of tokens. kept, kept_pairs: bytes
    that a trace keeps for each. beside, beside_pixel: bytes that stand beside them while a pass
    runs, for a token and for a pixel of the input. prefix: tokens that are no patches. finer:
    rows of the blocks' finest grid for each of the model's own; 0 where no attention is read.
    """

    per_token: float
    per_pair: float
    kept: float
    kept_pairs: float
    beside: float
    beside_pixel: float
    prefix: int
    finer: float = 1.0

    def seconds(self, tokens: int) -> float:
        return self.per_token * tokens + self.per_pair * tokens**2

    def kept_bytes(self, tokens: int) -> float:
        return self.kept * tokens + self.kept_pairs * tokens**2


def measure_pace(vit: VisionModel) -> Pace:
    """Time the model at its own size: about five of its passes, a fraction of a second for most."""
    vit = vit.native or vit
    # The check of a first trace, so that no look pays for it.
    read = bool(vit.supports("attention", row=0))
    adapter, size = vit.adapter, vit.preprocessing.size
    own = adapter.grid(size)
    grids = [adapter.block_grids(i, size)[0] for i in range(len(adapter.blocks))] if read else []
    tokens, *others = (adapter.prefix + rows * columns for rows, columns in (own, *grids))
    # Where no attention is read, it may be a program made for one photo at a time.
    batch = max(1, round(_TOKENS / max(others))) if others else 1
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(batch, 3, *size, generator=generator).to(vit.device, vit.dtype)
    capture = Capture(adapter)
    with torch.inference_mode(False), torch.no_grad():
        with capture:  # warms the machine up, and shows the attention calls
            vit.logits(pixels[:1])
        seen = capture.calls if read else []
        calls = [adapter.on_grid(i, call, size) for i, call in enumerate(seen)]
        whole = _timed(vit, lambda: vit.logits(pixels))
        per_pair = _attention_seconds(vit, calls[: adapter.depth]) / tokens**2
        beside = beside_bytes(vit, pixels[:1])
    kept, kept_pairs = kept_bytes(calls, tokens)
    return Pace(
        per_token=max(whole / batch - per_pair * tokens**2, 0.0) / tokens,
        per_pair=per_pair,
        kept=kept,
        kept_pairs=kept_pairs,
        beside=beside / tokens,
        beside_pixel=3 * (4 + pixels.element_size()),
        prefix=adapter.prefix,
        finer=max((rows for rows, _ in grids), default=0) / own[0],
    )


def _attention_seconds(vit: VisionModel, calls: Sequence[Call]) -> float:
    """Seconds of the attention over all tokens: one call of many tokens, timed, by their pairs.

    Attention inside windows grows with the tokens only, so it is left to their time.
    """
    seconds = 0.0
    timed: dict[tuple[int, int, bool], float] = {}
    for call in calls:
        if not isinstance(call, AttentionCall):
            continue
        heads, width = call.q.shape[1], call.q.shape[3]
        kind = heads, width, call.mask is not None
        if kind not in timed:
            q = torch.ones(1, heads, _PAIRED, width, device=vit.device).to(vit.dtype)
            mask = q.new_zeros(1, heads, _PAIRED, _PAIRED) if kind[2] else None
            attend = partial(F.scaled_dot_product_attention, q, q, q, attn_mask=mask)
            timed[kind] = _timed(vit, attend)
        seconds += timed[kind] * call.rows_count * call.columns_count / _PAIRED**2
    return seconds


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
