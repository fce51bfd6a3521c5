"""Models whose linear layers hold weights rounded to whole numbers (torch.ao quantisation)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from explainers.registry import Support
from explainers.sentence import Sentence


def is_quantised(module: nn.Module) -> bool:
    """Whether any layer of a module has rounded weights."""
    return any(type(m).__module__.startswith("torch.ao.nn.") for m in module.modules())


def used_weight(module: nn.Module | None) -> Any:
    """The object that a call of this layer is given for its weight; None without one.

    A quantised layer is called with its weights and biases packed together.
    """
    packed: Any = getattr(module, "_packed_params", None)
    if packed is not None:
        return packed._packed_params
    return getattr(module, "weight", None)


def plain_weight(module: nn.Module) -> Tensor:
    """The weight of a layer in floating point, as its calls use it."""
    weight: Any = module.weight
    if callable(weight):
        return cast(Tensor, weight().dequantize())
    return cast(Tensor, weight).detach()


def tensors_of(value: Any) -> Iterator[Tensor]:
    """The tensors in an entry of a state: itself, or those packed together, unrounded."""
    if isinstance(value, Tensor):
        yield value.dequantize() if value.is_quantized else value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_of(part)


QUANTISED_CALLS: tuple[Any, ...] = tuple(
    getattr(torch.ops.quantized, name) for name in ("linear_dynamic", "linear_dynamic_fp16")
)
"""The calls that stand for `F.linear` in such layers: (input, packed weights, …)."""

NO_GRADIENTS = Support(
    False,
    Sentence(
        "no_gradients",
        "This model's weights are rounded to whole numbers, which stops gradients; "
        "attention and occlusion still work.",
    ),
)
