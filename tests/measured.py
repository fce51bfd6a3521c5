"""Maps of given values, traces to measure them on, and a count of the passes that it takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import HeatMap, VisionModel, load_photo, wrap_model
from explainers.models.adapters import YES, Adapter
from explainers.models.preprocessing import Preprocessing
from explainers.trace import Trace
from tests.tiny import LABELS, VARIANTS, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())


def traced(variant: str = "plain", **more: object) -> Trace:
    return wrap_model(tiny_vit(**{**VARIANTS[variant], **more}), labels=LABELS).trace(PHOTO)


def heat_of(trace: Trace, values: np.ndarray, kind: str = "grid", signed: bool = False) -> HeatMap:
    """A map of given values, as a method would have made it."""
    return HeatMap(
        values=values,
        kind=kind,  # type: ignore[arg-type]
        signed=signed,
        method="planted",
        title="Planted",
        meaning="",
        photo=trace.photo,
        geometry=trace.geometry,
        target=None,
        against=None,
        parameters={},
        prefix_share=None,
        figures={},
        notes=(),
        provenance={},
    )


class Share(nn.Module):
    """p(class 0) = F / 10, F = Σ_i w_i·x_i over four patches, w_i·x_i = 1, 2, 3, 4 for a photo.

    The weights of a patch sum to zero in every channel, so an evenly filled patch gives 0.
    """

    def __init__(self, pixels: Tensor) -> None:
        super().__init__()
        pattern = torch.ones(4, 4, dtype=pixels.dtype)
        pattern[:, ::2] = -1
        w = pattern.repeat(3, 2, 2)
        for wanted, (row, column) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1)), 1):
            cell = (slice(None), slice(4 * row, 4 * row + 4), slice(4 * column, 4 * column + 4))
            w[cell] *= wanted / (w[cell] * pixels[cell]).sum()
        self.w = nn.Parameter(w)

    def forward(self, pixels: Tensor) -> Tensor:
        share = ((pixels * self.w).flatten(1).sum(1) / 10).clamp(1e-15, 1 - 1e-15)
        return torch.stack([share.log(), (1 - share).log()], 1)


def linear() -> Trace:
    adapter = Adapter()
    adapter.patch, adapter.classes = (4, 4), 2
    preprocessing = Preprocessing((8, 8), (0.5,) * 3, (0.5,) * 3, crop_pct=1.0)
    start = nn.Linear(1, 1).double()  # only says that pixels are float64
    vit = VisionModel(start.eval(), "linear", preprocessing, adapter, classes=2)
    vit.attention_check = YES
    vit.module = Share(vit.prepare([PHOTO])[0][0]).eval()
    return vit.trace(PHOTO)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of pictures in every pass of any model."""
    counted: list[int] = []
    plain = VisionModel.logits

    def logits(self: VisionModel, pixels: Tensor, *more: object) -> Tensor:
        counted.append(len(pixels))
        return plain(self, pixels, *more)

    monkeypatch.setattr(VisionModel, "logits", logits)
    return counted
