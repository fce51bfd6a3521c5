"""How a model is trained: the settings, the optimiser and its rate at every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from training.errors import TrainingError


@dataclass(frozen=True)
class Plan:
    """Settings of a run.

    batch: images a step, all processes together. rate: AdamW's at its highest, reached after
    ``warmup`` steps and lowered along a cosine to ``final_rate`` times that. weight_decay: of
    matrices; biases, norms, CLS and positions are not decayed. clip: the gradient's highest
    norm, 0 for none. padding and augment: see `batches.augmented`. bf16: autocast.
    checkpointing: recompute each block in the backward pass instead of keeping its tensors.
    """

    epochs: int = 50
    batch: int = 128
    rate: float = 1e-3
    warmup: int = 100
    final_rate: float = 0.01
    weight_decay: float = 0.05
    clip: float = 1.0
    smoothing: float = 0.0
    augment: bool = True
    padding: float = 0.125
    dropout: float = 0.0
    bf16: bool = False
    checkpointing: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _check("epochs", self.epochs, "1 or more", self.epochs >= 1)
        _check("batch", self.batch, "1 or more", self.batch >= 1)
        _check("rate", self.rate, "above 0", 0 < self.rate < math.inf)
        _check("warmup", self.warmup, "0 or more", self.warmup >= 0)
        _check("final-rate", self.final_rate, "from 0 to 1", 0 <= self.final_rate <= 1)
        _check("weight-decay", self.weight_decay, "0 or more", self.weight_decay >= 0)
        _check("clip", self.clip, "0 or more", self.clip >= 0)
        _check("smoothing", self.smoothing, "from 0 to below 1", 0 <= self.smoothing < 1)
        _check("padding", self.padding, "from 0 to 1", 0 <= self.padding <= 1)
        _check("dropout", self.dropout, "from 0 to below 1", 0 <= self.dropout < 1)
        _check("seed", self.seed, "0 or more", self.seed >= 0)

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of a step (from 0) of a run of so many."""
        warmup = min(self.warmup, steps)
        if step < warmup:
            return self.rate * (step + 1) / warmup
        done = (step - warmup) / max(1, steps - warmup)  # 0..1
        share = self.final_rate + (1 - self.final_rate) * (1 + math.cos(math.pi * done)) / 2
        return self.rate * share


def optimiser(module: nn.Module, plan: Plan) -> torch.optim.AdamW:
    """AdamW over what is trained; only matrices decay."""
    trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    matrices = [p for name, p in trained if p.ndim >= 2 and not _table(name)]
    others = [p for name, p in trained if p.ndim < 2 or _table(name)]
    groups = [
        {"params": matrices, "weight_decay": plan.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=plan.rate)


def _table(name: str) -> bool:
    """Whether a parameter is a token or a position: no matrix, whatever its shape."""
    return name.endswith(("_token", "pos_embed")) or name.startswith("positions.")


def _check(name: str, value: object, expected: str, fits: bool) -> None:
    if not fits:
        raise TrainingError(f"--{name} must be {expected}; got {value}.")
