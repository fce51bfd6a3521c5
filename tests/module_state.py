"""What of a module a method could leave changed."""

from __future__ import annotations

import torch
from torch import nn


def state(module: nn.Module) -> list[object]:
    """Everything of a module that a method could leave changed."""
    found: list[object] = []
    for name, part in module.named_modules():
        hooks = (
            part._forward_hooks,
            part._forward_pre_hooks,
            part._backward_hooks,
            part._backward_pre_hooks,
        )
        found.append((name, part.training, type(part).__name__, [len(h) for h in hooks]))
        found.append(sorted(k for k in vars(part) if not k.startswith("_")))
    for name, parameter in module.named_parameters():
        grad = None if parameter.grad is None else parameter.grad.clone()
        found.append((name, parameter.requires_grad, parameter.detach().numpy().tobytes(), grad))
    found.append(torch.is_grad_enabled())
    return found
