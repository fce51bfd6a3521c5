"""Patch features for methods that need no class: what a block, or the final norm, hands on."""

from __future__ import annotations

from torch import Tensor

from explainers.methods.scoring import Progress
from explainers.models.errors import ModelError
from explainers.registry import Parameter
from explainers.sentence import Sentence
from explainers.tensors import FINAL
from explainers.trace import Trace

BLOCK = Parameter("block", -1, "block", "Which block, counted from 0; -1 is the last.")
AT = Parameter(
    "at",
    "auto",
    "choice",
    "The block's output as it is, or after the model's final norm (last block only); auto takes "
    "the final norm where it can.",
    choices=("auto", "output", "final"),
)


def token_features(trace: Trace, progress: Progress, block: int, at: str) -> Tensor:
    """Features of all tokens (N, width), float64 on the CPU; one run of the model, if any.

    at: "output", the stream leaving the block; "final", what the final norm makes of the last
    block's; "auto", the latter where there is one. ValueError for the final norm of another
    block, ModelError where the model has none that reads its tokens.
    """
    last = block == trace.depth - 1
    if at == "final" and not last:
        raise ValueError(
            Sentence(
                "final_norm_block",
                "The final norm reads the last block only; choose block {last}, or the output "
                "of block {block}.",
                last=trace.depth - 1,
                block=block,
            )
        )
    progress(0, 1)
    name = "output" if at == "output" or not last else FINAL
    try:
        features = trace.features(name, block)
    except ModelError:
        if at != "auto":
            raise
        features = trace.features("output", block)
    progress(1, 1)
    return features.cpu().double()  # there is no float64 on some accelerators
