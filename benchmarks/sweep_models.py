"""Which of timm's architectures attend, and each of them built small with random weights."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import timm
import torch
from timm.models import model_entrypoint
from torch import nn

LARGEST = 300_000_000
"""Parameters up to which a model whose depth cannot be set is built whole."""

_ATTENDS = re.compile(r"softmax|scaled_dot_product_attention|multi_head_attention")
_GATES = {"RadixSoftmax", "SplitAttn", "SelectiveKernelAttn", "SelectiveKernel"}
"""Softmaxes over a few branches of channels, which weigh no places."""


@dataclass(frozen=True)
class Built:
    """A module, None where it is too large; how: "2 blocks", "2 blocks a stage" or "whole"."""

    module: nn.Module | None
    how: str
    parameters: int


def architectures(only: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(file of timm's, architecture) of every one that attends, in order.

    only: parts of names, one of which a name holds, where not all are wanted.
    """
    for name in timm.list_models():
        if only and not any(part in name for part in only):
            continue
        if any(map(_attends, map(type, _skeleton(name)[0].modules()))):
            yield model_entrypoint(name).__module__.rsplit(".", 1)[1], name


def build(name: str, seed: int = 0) -> Built:
    """An architecture in evaluation mode, with 2 blocks (a stage) where its depth can be set.

    Random weights, with noise on every one: layers that start at zero would hide what they do.
    """
    empty, settings = _skeleton(name)
    parameters = sum(p.numel() for p in empty.parameters())
    how = {"depth": "2 blocks", "depths": "2 blocks a stage"}.get(next(iter(settings), ""), "whole")
    if parameters > LARGEST:
        return Built(None, how, parameters)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        module = timm.create_model(name, pretrained=False, **settings)
        for parameter in module.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return Built(module.eval(), how, parameters)


def smallest(names: list[str]) -> str:
    """Of some architectures the one with the fewest parameters when built shallow."""
    return min(names, key=lambda name: sum(p.numel() for p in _skeleton(name)[0].parameters()))


def _skeleton(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """The module on the meta device, as shallow as it can be built, and the settings for it."""
    with torch.device("meta"):
        whole = timm.create_model(name, pretrained=False)
        for settings in _shallow(type(whole)):
            try:
                return timm.create_model(name, pretrained=False, **settings), settings
            except Exception:  # the class takes the setting, this architecture does not
                continue
        return whole, {}


def _shallow(kind: type) -> list[dict[str, Any]]:
    """Settings that may leave two blocks, or two a stage, of a class.

    One that is given a configuration may hand them on to it, as NaFlexVit and MaxxVit do.
    """
    taken = inspect.signature(kind.__init__).parameters
    found: list[dict[str, Any]] = []
    for name in ("depth", "depths"):
        usual = taken[name].default if name in taken else None
        if isinstance(usual, int):
            found.append({name: 2})
        elif isinstance(usual, (tuple, list)):
            found.append({name: (2,) * len(usual)})
    return found or ([{"depth": 2}, {"depths": (2, 2, 2, 2)}] if "cfg" in taken else [])


@cache
def _attends(kind: type[nn.Module]) -> bool:
    if kind.__name__ in _GATES:
        return False
    try:
        return bool(_ATTENDS.search(inspect.getsource(kind.forward)))
    except (OSError, TypeError):
        return False
