"""Models whose linear layers hold weights rounded to whole numbers (torch.ao quantisation)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.ao.nn import quantized
from torch.ao.nn.quantized import dynamic
from torch.overrides import TorchFunctionMode

from explainers.models.sharing import sharing
from explainers.registry import Support
from explainers.sentence import Sentence


def is_quantised(module: nn.Module) -> bool:
    """Whether any layer of a module has rounded weights."""
    return any(type(m).__module__.startswith("torch.ao.nn.") for m in module.modules())


def is_linear(module: object) -> bool:
    """Whether a layer is linear, its weights rounded or not."""
    return isinstance(module, (nn.Linear, quantized.Linear))


def running(module: nn.Module) -> AbstractContextManager[object]:
    """Where a module's passes are run.

    `nn.TransformerEncoder` looks into its layers for a shortcut and fails at rounded ones,
    which have no tensor for a weight; while calls are watched it takes no shortcut.
    """
    return _Watched() if is_quantised(module) else nullcontext()


class _Watched(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def unrounded(module: nn.Module) -> nn.Module:
    """The module, or where layers of it are rounded its twin, through which gradients flow.

    Its linear layers have the same weights in floating point; all other parameters are the
    very tensors of the original.
    """
    if not is_quantised(module):
        return module
    twin = sharing(module)
    for name, layer in list(twin.named_modules(remove_duplicate=False)):
        if isinstance(layer, dynamic.Linear):
            twin.set_submodule(name, _plain_linear(layer))
    return twin


def _plain_linear(layer: dynamic.Linear) -> nn.Linear:
    weight, bias = plain_weight(layer), layer.bias()
    plain = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    plain.weight = nn.Parameter(weight)
    if bias is not None:
        plain.bias = nn.Parameter(bias.detach())
    return plain.train(layer.training)


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
