"""One pass of an unknown module over noise, from which its design is learnt."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from explainers.models.errors import ModelError
from explainers.sentence import Sentence


def noise_pass(
    module: nn.Module, size: tuple[int, int], watch: AbstractContextManager[Any]
) -> Tensor:
    """The module's answer (1, classes) to noise (1, 3, height, width), with its graph.

    watch: what sees the pass. ModelError where the module cannot be run on such an input, or
    answers with anything but one tensor (photos, classes).
    """
    first = next(module.parameters())
    drawn = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0))
    try:
        with torch.inference_mode(False), torch.enable_grad():
            pixels = drawn.to(first.device, first.dtype).requires_grad_()
            with watch:
                answer = module(pixels)
    except Exception as error:  # whatever an unknown program does with an input it does not like
        raise ModelError(
            Sentence(
                "probe_failed",
                "{family} could not be run on a photo of {height}×{width} pixels ({reason}); give "
                "its true size, or wrap it in a module that takes photos (B, 3, h, w) alone.",
                family=type(module).__name__,
                height=size[0],
                width=size[1],
                reason=(str(error).strip() or type(error).__name__).split("\n")[-1],
            )
        ) from error
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
