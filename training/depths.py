"""How far each parameter of a Vision Transformer is from its head, counted in blocks."""

from __future__ import annotations

import re

from torch import nn

BLOCK = re.compile(r"(?:blocks|encoder\.layers)\.(\d+)\.")
AFTER = ("norm.", "fc_norm.", "head.", "head_dist.", "head_drop.", "attn_pool.", "encoder.norm.")
"""Beginnings of the names of what comes after the last block."""


def depth_of(module: nn.Module) -> int:
    """How many blocks the model has, by the names of its parameters."""
    found = (BLOCK.match(name) for name, _ in module.named_parameters())
    return 1 + max((int(match[1]) for match in found if match), default=-1)


def from_head(name: str, depth: int) -> int:
    """0 for the head and the norm before it, 1 for the last block, ``depth`` for the first.

    The patch embedding, the prefix tokens and the positions are one further: depth + 1. So
    counted in BEiT's fine-tuning (Bao et al., ICLR 2022), whose rates fall with this number.
    """
    block = BLOCK.match(name)
    if block:
        return depth - int(block[1])
    return 0 if name.startswith(AFTER) else depth + 1
