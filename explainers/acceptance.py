"""Whether what was captured of a model's attention is what the model used."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from explainers.capture import Capture
from explainers.models.adapters import YES
from explainers.models.vision_model import VisionModel
from explainers.registry import Support
from explainers.sentence import Sentence

_TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2}  # relative; others 1e-5


def accept(model: VisionModel, capture: Capture, pixels: Tensor) -> Support:
    """Whether the calls seen are the model's blocks and explain what each block handed on."""
    adapter = model.adapter
    if not (support := adapter.attention_support()):
        return support
    if len(capture.calls) != adapter.calls:
        return Support(
            False,
            Sentence(
                "check_calls",
                "{seen} attention calls were seen in a model of {expected} attention layers, so "
                "no map can be trusted; attention is not shown.",
                seen=len(capture.calls),
                expected=adapter.calls,
            ),
        )
    size = pixels.shape[-2:]
    for index, seen in enumerate(capture.calls[: adapter.depth]):
        call = adapter.on_grid(index, seen, size)
        grids = adapter.block_grids(index, size)
        cells = [adapter.prefix + rows * columns for rows, columns in grids]
        if [call.rows_count, call.columns_count] != cells:
            rows, columns = grids[0]
            return Support(
                False,
                Sentence(
                    "check_tokens",
                    "A block attends over {tokens} tokens where {prefix} prefix tokens and a "
                    "{rows}×{columns} grid make {expected}; attention is not shown.",
                    tokens=call.rows_count,
                    prefix=adapter.prefix,
                    rows=rows,
                    columns=columns,
                    expected=cells[0],
                ),
            )
    if len(capture.deviations) < adapter.checks:
        return Support(
            False,
            Sentence(
                "check_unseen",
                "Only {seen} of {expected} attention layers hand what they made to an output "
                "layer that is known by its weight (a weight that is computed first, as in LoRA "
                "or weight normalisation, is not), so attention is not shown; merge such "
                "weights.",
                seen=len(capture.deviations),
                expected=adapter.checks,
            ),
        )
    if any(map(math.isnan, capture.deviations)):
        return Support(
            False,
            Sentence(
                "check_not_finite",
                "The attention of this model holds numbers that are not finite (NaN); check its "
                "weights for such numbers.",
            ),
        )
    worst = max(capture.deviations, default=float("inf"))
    if not worst <= _TOLERANCE.get(model.dtype, 1e-5):
        return Support(
            False,
            Sentence(
                "check_deviation",
                "Attention computed again differs from what the model used by {percent} %, so "
                "its maps would be wrong; attention is not shown.",
                percent=f"{100 * worst:.2g}",
            ),
        )
    return YES
