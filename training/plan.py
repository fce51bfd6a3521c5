"""How a model is trained: the settings, the optimiser and its rate at every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from training.depths import depth_of, from_head
from training.errors import TrainingError


@dataclass(frozen=True)
class Plan:
    """Settings of a run.

    steps: batches in all; 0 for as many as the epochs have. batch: images a step, all processes
    together. rate: AdamW's at its highest, reached after ``warmup`` steps and lowered along a
    cosine to ``final_rate`` times that; of the head: ``layer_decay`` lowers it for each block
    further from there. weight_decay: of matrices; biases, norms, CLS and positions are not
    decayed. clip: the gradient's highest norm, 0 for none. augment with padding, crop_from and
    brightness: see `batches.training_batch`. bf16: autocast. checkpointing: recompute each
    block in the backward pass instead of keeping its tensors. later_size: the images' pixels a
    side from the part ``later_from`` of all steps on; 0 for none.
    """

    epochs: int = 50
    steps: int = 0
    batch: int = 128
    rate: float = 1e-3
    warmup: int = 100
    final_rate: float = 0.01
    layer_decay: float = 1.0
    weight_decay: float = 0.05
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float = 1.0
    smoothing: float = 0.0
    augment: bool = True
    padding: float = 0.125
    crop_from: float = 1.0
    brightness: float = 0.0
    dropout: float = 0.0
    bf16: bool = False
    checkpointing: bool = False
    seed: int = 0
    later_size: int = 0
    later_from: float = 0.5

    def __post_init__(self) -> None:
        _check("epochs", self.epochs, "1 or more", self.epochs >= 1)
        _check("steps", self.steps, "0 or more", self.steps >= 0)
        _check("batch", self.batch, "1 or more", self.batch >= 1)
        _check("rate", self.rate, "above 0", 0 < self.rate < math.inf)
        _check("warmup", self.warmup, "0 or more", self.warmup >= 0)
        _check("final-rate", self.final_rate, "from 0 to 1", 0 <= self.final_rate <= 1)
        _check("layer-decay", self.layer_decay, "above 0, at most 1", 0 < self.layer_decay <= 1)
        _check("beta1", self.beta1, "from 0 to below 1", 0 <= self.beta1 < 1)
        _check("beta2", self.beta2, "from 0 to below 1", 0 <= self.beta2 < 1)
        _check("weight-decay", self.weight_decay, "0 or more", self.weight_decay >= 0)
        _check("clip", self.clip, "0 or more", self.clip >= 0)
        _check("smoothing", self.smoothing, "from 0 to below 1", 0 <= self.smoothing < 1)
        _check("padding", self.padding, "from 0 to 1", 0 <= self.padding <= 1)
        _check("crop-from", self.crop_from, "above 0, at most 1", 0 < self.crop_from <= 1)
        _check("brightness", self.brightness, "from 0 to 1", 0 <= self.brightness <= 1)
        _check("dropout", self.dropout, "from 0 to below 1", 0 <= self.dropout < 1)
        _check("seed", self.seed, "0 or more", self.seed >= 0)
        _check("later-size", self.later_size, "0 or more", self.later_size >= 0)
        _check("later-from", self.later_from, "from 0 to 1", 0 <= self.later_from <= 1)

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of a step (from 0) of a run of so many."""
        warmup = min(self.warmup, steps)
        if step < warmup:
            return self.rate * (step + 1) / warmup
        done = (step - warmup) / max(1, steps - warmup)  # 0..1
        share = self.final_rate + (1 - self.final_rate) * (1 + math.cos(math.pi * done)) / 2
        return self.rate * share


def optimiser(module: nn.Module, plan: Plan) -> torch.optim.AdamW:
    """AdamW over what is trained; only matrices decay.

    Each group's ``part`` is what its rate is multiplied by: layer_decay ^ (steps from the head).
    """
    groups: dict[tuple[bool, float], dict[str, object]] = {}
    trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    depth = depth_of(module)
    for still in (False, True):
        for name, parameter in trained:
            if (parameter.ndim < 2 or _table(name)) is still:
                part = plan.layer_decay ** from_head(name, depth)
                decay = 0.0 if still else plan.weight_decay
                empty = {"params": [], "weight_decay": decay, "part": part}
                groups.setdefault((still, part), empty)["params"].append(parameter)  # type: ignore[attr-defined]
    betas = (plan.beta1, plan.beta2)
    return torch.optim.AdamW(list(groups.values()), lr=plan.rate, betas=betas)


def _table(name: str) -> bool:
    """Whether a parameter is a token or a position: no matrix, whatever its shape."""
    return name.endswith(("_token", "pos_embed")) or name.startswith("positions.")


def _check(name: str, value: object, expected: str, fits: bool) -> None:
    if not fits:
        raise TrainingError(f"--{name} must be {expected}; got {value}.")
