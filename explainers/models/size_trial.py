"""Whether a module takes an input of another size: tried in one pass, since nothing else tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from explainers.models.quantised import running

Found = TypeVar("Found")


def try_pass(module: nn.Module, size: tuple[int, int], run: Callable[[Tensor], Found]) -> Found:
    """What ``run`` finds in one pass of blank pixels (1, 3, height, width); no graph is kept.

    Whatever the module raises at a size that it does not take is raised.
    """
    first = next(p for p in module.parameters() if p.is_floating_point())
    pixels = torch.zeros(1, 3, *size, device=first.device, dtype=first.dtype)
    with torch.inference_mode(False), torch.no_grad(), running(module):
        return run(pixels)
