"""Where a model computes and in what precision, by name; a sentence where a machine cannot."""

from __future__ import annotations

from typing import Any

import torch

from explainers.models.errors import ModelError
from explainers.scalars import shown
from explainers.sentence import Sentence

DEVICES = ("auto", "cpu", "cuda", "mps")
"""The names offered; "auto" is CUDA where there is one, else MPS, else the CPU."""

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def find_device(name: Any) -> torch.device:
    """A device by torch's name of it, or "auto"; ModelError where it is not there."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.empty(0, device=name).device
        if device.type != "meta":  # it holds shapes and no numbers
            return device
        cause: Exception | None = None
    except (RuntimeError, AssertionError, TypeError) as error:
        cause = error
    raise ModelError(
        Sentence(
            "device_unknown",
            "There is no device {name!r} here; try 'auto' or 'cpu'.",
            name=shown(name),
        )
    ) from cause


def find_precision(name: object, device: torch.device) -> torch.dtype:
    """A precision by name or torch's own; ModelError where the device does not compute in it."""
    wanted = PRECISIONS.get(name, name) if isinstance(name, str) else name
    if not isinstance(wanted, torch.dtype) or wanted not in PRECISIONS.values():
        raise ModelError(
            Sentence(
                "precision_unknown",
                "The precision must be one of {precisions}; got {name!r}.",
                precisions=", ".join(PRECISIONS),
                name=shown(name),
            )
        )
    try:
        side = torch.ones(2, 2, dtype=wanted, device=device)
        (side @ side).softmax(-1)
    except (RuntimeError, TypeError) as error:
        raise ModelError(
            Sentence(
                "precision_not_here",
                "The device {device} does not compute in {name}; try float32.",
                device=device.type,
                name=str(wanted).removeprefix("torch."),
            )
        ) from error
    return wanted
