"""Models that are no ViTs, whose explanations have closed forms."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from explainers import VisionModel, load_photo
from explainers.models.adapters import YES, Adapter
from explainers.models.preprocessing import Preprocessing
from explainers.trace import Trace
from tests.tiny import tiny_photo_array

PHOTO = load_photo(tiny_photo_array())


class Linear(nn.Module):
    """y_c = Σ w_c · x over all pixels; or y_c = Σ x² where squared."""

    def __init__(self, squared: bool = False) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.w = nn.Parameter(torch.randn(2, 3, 8, 12, generator=generator, dtype=torch.float64))
        self.squared = squared

    def forward(self, pixels: Tensor) -> Tensor:
        if self.squared:
            return pixels.pow(2).flatten(1).sum(1, keepdim=True).repeat(1, 2)
        return pixels.flatten(1) @ self.w.flatten(1).T


def closed(squared: bool = False) -> Trace:
    adapter = Adapter()
    adapter.patch, adapter.classes = (4, 4), 2
    preprocessing = Preprocessing((8, 12), (0.5,) * 3, (0.5,) * 3, crop_pct=1.0)
    vit = VisionModel(Linear(squared).eval(), "linear", preprocessing, adapter, classes=2)
    vit.attention_check = YES
    return vit.trace(PHOTO)
