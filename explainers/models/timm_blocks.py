"""The blocks of timm's token models: where each kind reads the stream and merges its heads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from explainers.models.parts import BlockParts
from explainers.models.quantised import is_linear
from explainers.registry import YES, Support
from explainers.sentence import Sentence

_NORM_FIRST = {"Block", "EvaBlock", "RelPosBlock", "DeepseekVitBlock"}
_NORM_LAST = {"ResPostBlock", "EvaBlockPostNorm", "ResPostRelPosBlock"}
_ONE_SUM = {"ParallelScalingBlock", "DiffParallelScalingBlock"}
_DIFFERENCES = {"DiffAttention", "DiffParallelScalingBlock"}


def read_blocks(blocks: Iterable[nn.Module]) -> tuple[BlockParts, ...] | None:
    """The parts of a model's blocks, or None where the design of one is not known here."""
    found = [_read_block(block) for block in blocks]
    known = tuple(parts for parts in found if parts is not None)
    return known if len(known) == len(found) else None


def heads_of(block: Any) -> int:
    """How many heads a block's attention has."""
    if _kinds(block) & _ONE_SUM:
        return int(block.num_heads)
    return int(block.attns[0].attn.num_heads if hasattr(block, "attns") else block.attn.num_heads)


def attention_support(blocks: Iterable[Any]) -> Support:
    """Whether every block makes one attention call, whose rows are distributions."""
    for block in blocks:
        if _kinds(block) & {"ParallelThingsBlock"}:
            return Support(
                False,
                Sentence(
                    "attention_side_by_side",
                    "Each block of this model has {count} attentions side by side, whose results "
                    "are summed, so a block has no one attention map; CAM, gradient and hiding "
                    "methods work.",
                    count=len(block.attns),
                ),
            )
        if (_kinds(block) | _kinds(getattr(block, "attn", block))) & _DIFFERENCES:
            return Support(
                False,
                Sentence(
                    "attention_difference",
                    "This model subtracts one attention from another (differential attention), so "
                    "its weights can be negative and add up to no whole; CAM, gradient and hiding "
                    "methods work.",
                ),
            )
    return YES


def _read_block(block: Any) -> BlockParts | None:
    kinds = _kinds(block)
    if kinds & _ONE_SUM:
        return BlockParts(
            block.in_norm, None, getattr(block, "attn_out_proj", None) or block.out_proj
        )
    if "ParallelThingsBlock" in kinds:
        first = block.attns[0]
        return BlockParts(first.norm, block.ffns[0].norm, first.attn.proj)
    if not hasattr(getattr(block, "attn", None), "proj"):
        return None
    if kinds & _NORM_LAST:
        reads = _first_linear(block.attn), _first_linear(block.mlp)
    elif kinds & _NORM_FIRST:
        reads = block.norm1, block.norm2
    else:
        return None
    attention = block.attn
    norm, gate = getattr(attention, "norm", None), getattr(attention, "gate", None)
    return BlockParts(*reads, attention.proj, norm, gate)


def _first_linear(part: nn.Module) -> nn.Module:
    """The layer that reads a part's input: qkv, or q where the three stand apart; fc1."""
    return next(layer for layer in part.modules() if is_linear(layer))


def _kinds(part: Any) -> set[str]:
    """The names of the classes of timm that a part is made of."""
    return {kind.__name__ for kind in type(part).__mro__ if kind.__module__.startswith("timm.")}
