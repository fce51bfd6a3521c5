"""Weights files of a small module, written, read again, and refused with a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file

from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from tests.tiny import seeded

ARCH = "test_vit"  # timm's own: 160 pixels in 16-pixel patches, width 64, 6 blocks


def module(classes: int = 3, **arguments: Any) -> torch.nn.Module:
    with seeded(1):
        return timm.create_model(ARCH, num_classes=classes, **arguments).eval()


def write(
    path: Path,
    model: torch.nn.Module,
    prefix: str = "",
    dtype: torch.dtype = torch.float32,
    **metadata: str,
) -> Path:
    tensors = {prefix + k: v.to(dtype) for k, v in model.state_dict().items()}
    save_file(tensors, path, metadata)
    return path


def same_answers(vit: VisionModel, model: torch.nn.Module, size: int = 160) -> bool:
    pixels = torch.rand(2, 3, size, size)
    with torch.inference_mode():
        return torch.equal(vit.logits(pixels), model(pixels))


def key_of(error: pytest.ExceptionInfo[ModelError]) -> str:
    return error.value.args[0].key
