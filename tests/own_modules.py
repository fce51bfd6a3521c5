"""Vision Transformers as people write them, without any library's classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.tiny import CLASSES, HEADS, PATCH, SQUARE, WIDTH, seeded, shake


class OwnAttention(nn.Module):
    """q, k and v in one layer; how they meet is ``way``: "sdpa", "written" or "einsum"."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.to_qkv, self.to_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.way = way
        self.seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.to_qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scale = q.shape[-1] ** -0.5
        explicit = (q @ k.transpose(-2, -1) * scale).softmax(-1)
        self.seen = explicit.detach()
        if self.way == "sdpa":
            out = F.scaled_dot_product_attention(q, k, v)
        elif self.way == "written":
            out = explicit @ v
        else:
            out = torch.einsum("bhij,bhjd->bhid", explicit, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class OwnBlock(nn.Module):
    def __init__(self, way: str, post_norm: bool) -> None:
        super().__init__()
        self.a, self.b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.look = OwnAttention(way)
        self.think = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
        self.post_norm = post_norm

    def forward(self, x: Tensor) -> Tensor:
        if self.post_norm:
            x = self.a(x + self.look(x))
            return self.b(x + self.think(x))
        x = x + self.look(self.a(x))
        return self.think(self.b(x)) + x


class OwnViT(nn.Module):
    """pool: "first", "patches" or "all"; extra: tokens before the patches; linear: no conv."""

    def __init__(
        self,
        way: str = "sdpa",
        pool: str = "first",
        extra: int = 1,
        linear: bool = False,
        post_norm: bool = False,
        size: tuple[int, int] = SQUARE,
    ) -> None:
        super().__init__()
        cells = (size[0] // PATCH) * (size[1] // PATCH)
        self.cut: Any = nn.Linear(3 * PATCH * PATCH, WIDTH) if linear else None
        self.patches: Any = None if linear else nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.extra = nn.Parameter(torch.zeros(1, extra, WIDTH))
        self.pos_embedding = nn.Parameter(torch.zeros(1, extra + cells, WIDTH))
        self.layers = nn.ModuleList(OwnBlock(way, post_norm) for _ in range(3))
        self.last, self.answer = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.pool = pool

    def forward(self, photos: Tensor) -> Tensor:
        if self.patches is None:
            cells = F.unfold(photos, PATCH, stride=PATCH).transpose(1, 2)
            x = self.cut(cells)
        else:
            x = self.patches(photos).flatten(2).transpose(1, 2)
        x = torch.cat([self.extra.expand(len(x), -1, -1), x], 1) + self.pos_embedding
        for layer in self.layers:
            x = layer(x)
        x = self.last(x)
        before = self.extra.shape[1]
        pooled = {"first": x[:, 0], "patches": x[:, before:].mean(1), "all": x.mean(1)}[self.pool]
        return self.answer(pooled)


def own_vit(**options: Any) -> OwnViT:
    """A seeded float64 `OwnViT` in evaluation mode."""
    with seeded(6):
        module = OwnViT(**options)
        shake(module)
    return module.double().eval()
