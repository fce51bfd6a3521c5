"""Tiny seeded float64 Vision Transformers: fast to run, small enough to check by hand.

All have depth 3, 2 heads, width 16 and 5 classes, so a head is 8 wide. Their weights are
drawn from a forked generator: building one never disturbs another test's random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import timm
import torch
from torch import Tensor, nn

DEPTH = 3
HEADS = 2
WIDTH = 16
PATCH = 4
CLASSES = 5
SQUARE = (16, 16)  # pixels: a 4×4 grid
RECTANGLE = (12, 20)  # pixels: a 3×5 grid
LABELS = ("tabby cat, tabby", "Persian cat", "espresso", "lion, king of beasts", "teapot")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's CPU generator at ``seed`` inside, and afterwards as it was before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def shake(module: nn.Module, spread: float = 0.3) -> nn.Module:
    """Redraw every parameter so that none is zero or one: biases, norms, prefix tokens, head."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn_like(parameter) * spread
            centred_on_one = parameter.ndim == 1 and "norm" in name and name.endswith("weight")
            parameter.copy_(1 + noise if centred_on_one else noise)
    return module


def tiny_vit(
    *,
    size: tuple[int, int] = SQUARE,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    distilled: bool = False,
    **arguments: Any,
) -> nn.Module:
    """A timm ViT (a distilled DeiT when ``distilled``) in evaluation mode.

    Further arguments are timm's own: ``reg_tokens=2``, ``class_token=False``,
    ``global_pool="avg"``, ``num_classes=0``, ``pre_norm=True``, ``init_values=0.1``, …
    """
    name = "deit_tiny_distilled_patch16_224" if distilled else "vit_tiny_patch16_224"
    settings: dict[str, Any] = {
        "img_size": size,
        "patch_size": PATCH,
        "embed_dim": WIDTH,
        "depth": DEPTH,
        "num_heads": HEADS,
        "num_classes": CLASSES,
        **arguments,
    }
    with seeded(seed):
        module = shake(timm.create_model(name, pretrained=False, **settings))
    return module.to(dtype).eval()


class EncoderViT(nn.Module):
    """A ViT as tutorials write it: patch convolution, class token, nn.TransformerEncoder.

    Input (B, 3, H, W) of exactly ``size``; output (B, classes), read from the class token.
    """

    def __init__(
        self,
        size: tuple[int, int] = SQUARE,
        classes: int = CLASSES,
        norm_first: bool = True,
        depth: int = DEPTH,
    ) -> None:
        super().__init__()
        tokens = 1 + (size[0] // PATCH) * (size[1] // PATCH)
        self.patch_embed = nn.Conv2d(3, WIDTH, kernel_size=PATCH, stride=PATCH)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH,
            HEADS,
            dim_feedforward=4 * WIDTH,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=norm_first,
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, pixels: Tensor) -> Tensor:
        patches = self.patch_embed(pixels).flatten(2).transpose(1, 2)  # (B, h·w, width)
        cls = self.cls_token.expand(len(pixels), -1, -1)  # (B, 1, width)
        tokens = torch.cat([cls, patches], dim=1) + self.pos_embed  # (B, 1 + h·w, width)
        return self.head(self.norm(self.encoder(tokens))[:, 0])  # (B, classes)


def tiny_encoder(
    *,
    size: tuple[int, int] = SQUARE,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    **arguments: Any,
) -> EncoderViT:
    """An `EncoderViT` with seeded weights, in evaluation mode."""
    with seeded(seed):
        module = EncoderViT(size, **arguments)
        shake(module)
    return module.to(dtype).eval()


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rectangle": {"size": RECTANGLE},
    "registers": {"reg_tokens": 2},
    "distilled": {"distilled": True},
    "average": {"global_pool": "avg"},
    "average_registers": {"global_pool": "avg", "reg_tokens": 2},
    "no_class_token": {"global_pool": "avg", "class_token": False},
    "headless": {"num_classes": 0},
}
"""Keyword arguments of `tiny_vit` for each family of models that must work."""


def tiny_pixels(
    count: int = 1,
    size: tuple[int, int] = SQUARE,
    seed: int = 1,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Model-input pixels (count, 3, h, w), standard normal."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, *size, generator=generator, dtype=dtype)


def tiny_photo_array(height: int = 40, width: int = 60, seed: int = 2) -> np.ndarray:
    """A photo as an upright RGB array, uint8 (height, width, 3): smooth colours with some noise."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    ramp = np.stack([x / width, y / height, (x + y) / (width + height)], axis=-1) * 200
    return (ramp + random.uniform(0, 55, size=ramp.shape)).astype(np.uint8)
