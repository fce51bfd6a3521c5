"""Tiny models to look into, and positions as models learn them."""

from __future__ import annotations

from typing import Any

import numpy as np

from explainers import wrap_model
from explainers.models.vision_model import VisionModel
from explainers.views.positions import PositionSimilarity
from tests.tiny import tiny_vit


def wrapped(**arguments: Any) -> VisionModel:
    return wrap_model(tiny_vit(**arguments))


def wave(h: int, w: int) -> PositionSimilarity:
    """Positions made of cosines, as models learn them."""
    y, x = np.mgrid[:h, :w].reshape(2, -1) + 0.5
    rows = np.stack([np.cos(np.pi * k * v / n) for k in (1, 2) for v, n in ((y, h), (x, w))])
    unit = rows / np.linalg.norm(rows, axis=0)
    return PositionSimilarity((unit.T @ unit).reshape(h, w, h, w).astype(np.float32))
