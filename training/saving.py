"""Checkpoints: a model that `load_model` opens, and the state that a run goes on from.

Both are safetensors. Each is written beside its place and moved there whole, so that a run that
is killed while writing leaves the former one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from training.errors import TrainingError
from training.models import Learner, is_reference

MODEL, STATE = "model.safetensors", "resume.safetensors"
WEIGHTS = "weights."


@dataclass
class Progress:
    """How far a run has come. sums: loss, hits and images of the epoch's steps so far."""

    step: int = 0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    history: list[dict[str, float]] = field(default_factory=list)


def save_model(path: Path, learner: Learner, settings: Mapping[str, Any]) -> None:
    """The weights, with all that is needed to build and use the model in the file's metadata.

    architecture: a name. config: timm's config.json form, with labels and preprocessing.
    training: the settings of the run.
    """
    config = describe(learner)
    metadata = {
        "architecture": config["architecture"],
        "config": json.dumps(config),
        "training": json.dumps(settings),
    }
    _write(path, learner.module.state_dict(), metadata)


def describe(learner: Learner) -> dict[str, Any]:
    """The model in the form of timm's config.json."""
    module, prepare = learner.module, learner.preprocessing
    if is_reference(module):
        arguments = module.model_args
    else:
        from timm.models._input import get_model_args

        kept = get_model_args(module)
        arguments = {k: v for k, v in kept.items() if k not in ("weight_init", "in_chans")}
    return {
        "architecture": module.pretrained_cfg["architecture"],
        "num_classes": len(learner.classes),
        "label_names": list(learner.classes),
        "model_args": arguments,
        "pretrained_cfg": {
            "input_size": [3, *prepare.size],
            "mean": prepare.mean,
            "std": prepare.std,
            "interpolation": prepare.interpolation,
            "crop_pct": prepare.crop_pct,
            "crop_mode": prepare.crop_mode,
        },
    }


def save_state(
    path: Path,
    learner: Learner,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    settings: Mapping[str, Any],
) -> None:
    """Weights, AdamW's moments, and how far the run has come.

    No generator's state is needed: every draw depends on (seed, epoch, step) alone.
    """
    tensors = {WEIGHTS + name: value for name, value in learner.module.state_dict().items()}
    for name, parameter in learner.module.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"{key}.{name}"] = value
    metadata = {"progress": json.dumps(vars(progress)), "settings": json.dumps(settings)}
    _write(path, tensors, metadata)


def load_state(
    path: Path, learner: Learner, optimiser: torch.optim.Optimizer, settings: Mapping[str, Any]
) -> Progress:
    """Put the learner and the optimiser back where the run stopped.

    Raises TrainingError where the file is damaged or the run had other settings.
    """
    tensors, metadata = _read(path)
    before, now = json.loads(metadata["settings"]), json.loads(json.dumps(settings))
    odd = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if odd:
        name = odd[0]
        raise TrainingError(
            f"The run in {path.parent.name} had {name} = {before.get(name)} and now has "
            f"{now.get(name)}; go on with the settings it was started with, or choose another "
            "--out."
        )
    prefix = len(WEIGHTS)
    learner.module.load_state_dict(
        {name[prefix:]: value for name, value in tensors.items() if name.startswith(WEIGHTS)}
    )
    for name, parameter in learner.module.named_parameters():
        for key in ("step", "exp_avg", "exp_avg_sq"):
            value = tensors.get(f"{key}.{name}")
            if value is not None:
                place = "cpu" if key == "step" else parameter.device
                optimiser.state[parameter][key] = value.to(place)
    return Progress(**json.loads(metadata["progress"]))


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
            if not {"settings", "progress"} <= metadata.keys():
                raise OSError("it holds no run")
            return tensors, metadata
    except (SafetensorError, OSError) as error:
        raise TrainingError(
            f"{path} is no whole checkpoint ({error}); start again without --resume in another "
            "--out."
        ) from error


def _write(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, new, metadata)
    os.replace(new, path)
