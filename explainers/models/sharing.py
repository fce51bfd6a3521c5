"""A copy of a module's structure that holds the original's own tensors."""

from __future__ import annotations

import copy

from torch import nn


def sharing(module: nn.Module) -> nn.Module:
    """A copy of the module's structure whose parameters and buffers are the original tensors."""
    tensors = [*module.parameters(), *module.buffers()]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})
