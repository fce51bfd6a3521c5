"""A pretended accelerator without float64, as Apple's: making one there is an AssertionError.

The tensors of the module, and all that come from them or are put beside them, are taken to live on
it until ``.cpu()`` is called. They stay in the CPU's memory, so everything runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map


class OnDevice(Tensor):
    """A tensor on the pretended device; what is computed with one is one as well."""


def move(module: nn.Module) -> nn.Module:
    """Put the module's weights on the pretended device."""
    for part in module.modules():
        for name, weights in part._parameters.items():
            if weights is not None:
                part._parameters[name] = nn.Parameter(weights.detach().as_subclass(OnDevice))
        for name, values in part._buffers.items():
            part._buffers[name] = None if values is None else values.as_subclass(OnDevice)
    return module


class NoFloat64(TorchFunctionMode):
    """Inside, a float64 tensor on the pretended device is an error that names the operation."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        place = _place(func, args, kwargs or {})
        if func is Tensor.cpu or isinstance(place, str):
            return tree_map(_off, found)
        if place is not None:
            found = tree_map(_on, found)
        for leaf in tree_leaves(found):
            if isinstance(leaf, OnDevice) and leaf.dtype in (torch.float64, torch.complex128):
                raise AssertionError(f"{func.__name__} makes {leaf.dtype} on the device")
        return found


def _place(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Where the call puts its result: the module's `torch.device`, a tensor there, or by name
    the CPU, as the library does; None where it says nothing of it."""
    given = kwargs.get("device")
    if func is Tensor.to and given is None and len(args) > 1:
        given = args[1]
    return given if isinstance(given, (str, torch.device, OnDevice)) else None


def _on(value: Any) -> Any:
    return value.as_subclass(OnDevice) if isinstance(value, Tensor) else value


def _off(value: Any) -> Any:
    return value.as_subclass(Tensor) if isinstance(value, Tensor) else value
