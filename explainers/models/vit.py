"""The Vision Transformer (Dosovitskiy et al., ICLR 2021), written to be read.

image → patches (N = HW/P²) → linear embedding → CLS token → positions → pre-LN encoder → head.
Shapes stand on the lines that make them: B photos, N tokens, W width, H heads, D = W/H.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.models.positions import Positions, make_positions

Embedding = Literal["linear", "convolution"]
Head = Literal["linear", "hidden"]


class PatchEmbedding(nn.Module):
    """Cuts a photo into patches, flattens each and projects it: (B, C, height, width) → (B, N, W).

    A flattened patch is (P, P, C): row by row, pixel by pixel, its colours together.
    """

    def __init__(self, patch_size: int, width: int, channels: int = 3) -> None:
        super().__init__()
        self.patch_size = patch_size
        self.projection = nn.Linear(patch_size * patch_size * channels, width)

    def forward(self, pixels: Tensor) -> Tensor:
        p = self.patch_size
        b, c, height, width = pixels.shape
        patches = pixels.reshape(b, c, height // p, p, width // p, p)  # (B, C, h, P, w, P)
        patches = patches.permute(0, 2, 4, 3, 5, 1)  # (B, h, w, P, P, C)
        return self.projection(patches.reshape(b, -1, p * p * c))  # (B, N, W)


class ConvolutionEmbedding(nn.Module):
    """The same projection as a convolution whose stride is its size; a patch is (C, P, P)."""

    def __init__(self, patch_size: int, width: int, channels: int = 3) -> None:
        super().__init__()
        self.patch_size = patch_size
        self.projection = nn.Conv2d(channels, width, patch_size, stride=patch_size)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.projection(pixels).flatten(2).transpose(1, 2)  # (B, N, W)


class Attention(nn.Module):
    """Multi-head self-attention: softmax(q kᵀ/√D + bias) v for each head, then a projection."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, qkv_bias: bool = True) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=qkv_bias)
        self.projection = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))  # (B, N, 3, H, D)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, H, N, D)
        dropout = self.dropout if self.training else 0.0
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)
        return self.projection(o.transpose(1, 2).flatten(2))  # (B, N, W)


class MLP(nn.Module):
    """Two linear layers with GELU between them, on each token alone."""

    def __init__(self, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.rise = nn.Linear(width, hidden)
        self.fall = nn.Linear(hidden, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fall(self.drop(F.gelu(self.rise(x)))))


class Block(nn.Module):
    """x + attention(LN(x)), then x + MLP(LN(x)): the norms stand before (pre-LN).

    scale1, scale2: LayerScale's factors a channel, where the weights have them.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        mlp_width: int,
        dropout: float = 0.0,
        eps: float = 1e-6,
        qkv_bias: bool = True,
        layer_scale: bool = False,
    ) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=eps)
        self.attention = Attention(width, heads, dropout, qkv_bias)
        self.norm2 = nn.LayerNorm(width, eps=eps)
        self.mlp = MLP(width, mlp_width, dropout)
        self.drop = nn.Dropout(dropout)
        self.scale1 = nn.Parameter(torch.ones(width)) if layer_scale else None
        self.scale2 = nn.Parameter(torch.ones(width)) if layer_scale else None

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        x = x + self.drop(_scaled(self.attention(self.norm1(x), bias), self.scale1))
        return x + _scaled(self.mlp(self.norm2(x)), self.scale2)


class VisionTransformer(nn.Module):
    """pixels (B, 3, height, width) → logits (B, classes).

    image_size: pixels, a number or (height, width). positions: "1d" (learned, one a token),
    "2d" (learned for rows and columns), "relative" (a bias on attention by offset) or "none":
    the paper's ablation. head: "linear", or one "hidden" tanh layer as in pre-training. stem: a
    CNN in front, as in the paper's hybrid; then patches are cut from its features
    (B, stem_width, height/stem_stride, width/stem_stride), with no projection at patch size 1
    where the widths agree.
    """

    def __init__(
        self,
        image_size: int | tuple[int, int] = 224,
        patch_size: int = 16,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        mlp_width: int = 3072,
        classes: int = 1000,
        *,
        dropout: float = 0.0,
        eps: float = 1e-6,
        qkv_bias: bool = True,
        layer_scale: bool = False,
        positions: Positions = "1d",
        embedding: Embedding = "linear",
        head: Head = "linear",
        stem: nn.Module | None = None,
        stem_width: int = 3,
        stem_stride: int = 1,
    ) -> None:
        super().__init__()
        self.image_size = (image_size, image_size) if isinstance(image_size, int) else image_size
        self.patch_size, self.num_classes = patch_size, classes
        self.cell = patch_size * stem_stride  # pixels of the photo a token stands for, a side
        rows, columns = (side // self.cell for side in self.image_size)
        self.grid_size = rows, columns
        self.stem = nn.Identity() if stem is None else stem
        make = PatchEmbedding if embedding == "linear" else ConvolutionEmbedding
        bare = stem is not None and patch_size == 1 and stem_width == width
        self.embedding = nn.Flatten(2) if bare else make(patch_size, width, stem_width)
        self.bare = bare
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = make_positions(positions, rows, columns, width, heads)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, mlp_width, dropout, eps, qkv_bias, layer_scale)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width, eps=eps)
        self.head: nn.Module = nn.Linear(width, classes)
        if head == "hidden":
            self.head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), self.head)
        nn.init.trunc_normal_(self.cls_token, std=0.02)

    def layers(self) -> list[Block]:
        """The blocks, first to last."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def tokens(self, pixels: Tensor) -> Tensor:
        """The tokens that enter the first block: (B, 1 + N, W), CLS first, positions added."""
        patches = self.embedding(self.stem(pixels))
        patches = patches.transpose(1, 2) if self.bare else patches  # (B, N, W)
        cls = self.cls_token.expand(len(pixels), -1, -1)
        return self.drop(self.positions(torch.cat([cls, patches], 1)))

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.tokens(pixels)
        bias = self.positions.bias()  # (1, H, 1 + N, 1 + N) for relative positions, else None
        for block in self.blocks:
            x = block(x, bias)
        return self.head(self.norm(x)[:, 0])  # the CLS token decides


class ConciseVisionTransformer(nn.Module):
    """The same model on `nn.TransformerEncoder`, as one writes it in an afternoon."""

    def __init__(
        self,
        image_size: int | tuple[int, int] = 224,
        patch_size: int = 16,
        width: int = 768,
        depth: int = 12,
        heads: int = 12,
        mlp_width: int = 3072,
        classes: int = 1000,
        *,
        dropout: float = 0.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.image_size = (image_size, image_size) if isinstance(image_size, int) else image_size
        self.patch_size, self.num_classes = patch_size, classes
        rows, columns = (side // patch_size for side in self.image_size)
        self.embedding = nn.Conv2d(3, width, patch_size, stride=patch_size)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + rows * columns, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, mlp_width, dropout, "gelu", eps, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width, eps=eps)
        self.head = nn.Linear(width, classes)
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)

    def forward(self, pixels: Tensor) -> Tensor:
        patches = self.embedding(pixels).flatten(2).transpose(1, 2)  # (B, N, W)
        cls = self.cls_token.expand(len(pixels), -1, -1)
        x = torch.cat([cls, patches], 1) + self.pos_embed
        return self.head(self.norm(self.encoder(x)[:, 0]))


def _scaled(x: Tensor, scale: nn.Parameter | None) -> Tensor:
    return x if scale is None else x * scale
