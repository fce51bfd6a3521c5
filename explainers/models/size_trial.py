"""Whether a module takes an input of some size: tried in one pass; and what a failed one says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from explainers.models.errors import ModelError
from explainers.models.quantised import running
from explainers.sentence import Sentence

Found = TypeVar("Found")


def try_pass(module: nn.Module, size: tuple[int, int], run: Callable[[Tensor], Found]) -> Found:
    """What ``run`` finds in one pass of blank pixels (1, 3, height, width); no graph is kept.

    Whatever the module raises at a size that it does not take is raised.
    """
    first = next(p for p in module.parameters() if p.is_floating_point())
    pixels = torch.zeros(1, 3, *size, device=first.device, dtype=first.dtype)
    with torch.inference_mode(False), torch.no_grad(), running(module):
        return run(pixels)


def could_not_run(module: nn.Module, size: tuple[int, int], error: Exception) -> ModelError:
    """The error to raise where a module raised ``error`` on a photo of (height, width) pixels."""
    return ModelError(
        Sentence(
            "probe_failed",
            "{family} could not be run on a photo of {height}×{width} pixels ({reason}); give "
            "its true size, or wrap it in a module that takes photos (B, 3, h, w) alone.",
            family=type(module).__name__,
            height=size[0],
            width=size[1],
            reason=(str(error).strip() or type(error).__name__).split("\n")[-1],
        )
    )


def demand_answer(module: nn.Module, answer: Any) -> Tensor:
    """The module's answer (photos, classes); ModelError where it is anything else."""
    if isinstance(answer, Tensor) and answer.dim() == 2:
        return answer
    raise ModelError(
        Sentence(
            "probed_answer",
            "{family} answered with {answer}; expected one tensor (photos, classes). Wrap it in "
            "a module whose forward pass gives that.",
            family=type(module).__name__,
            answer=str(tuple(answer.shape))
            if isinstance(answer, Tensor)
            else type(answer).__name__,
        )
    )
