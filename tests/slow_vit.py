"""A ViT's forward pass written out from the definition: the slow twin of every method.

Works on timm's VisionTransformer (also distilled, with registers, average pooling). Every
attention matrix is formed, kept, and attached to the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass
class Slow:
    """A[l]: (H, N, N); o[l] = A v: (H, N, D); stream[l]: what enters block l; all one photo."""

    logits: Tensor
    A: list[Tensor] = field(default_factory=list)
    o: list[Tensor] = field(default_factory=list)
    stream: list[Tensor] = field(default_factory=list)
    middle: list[Tensor] = field(default_factory=list)


def norm(x: Tensor, layer: nn.Module) -> Tensor:
    if isinstance(layer, nn.Identity):
        return x
    centred = x - x.mean(-1, keepdim=True)
    return (
        centred / (centred.pow(2).mean(-1, keepdim=True) + layer.eps).sqrt() * layer.weight
        + layer.bias
    )


def embed(module: nn.Module, pixels: Tensor) -> Tensor:
    """pixels (3, h, w) → tokens (N, width): patches flattened and projected, prefix, positions."""
    weight, (ph, pw) = module.patch_embed.proj.weight, module.patch_embed.patch_size
    rows, columns = pixels.shape[1] // ph, pixels.shape[2] // pw
    patches = torch.stack(
        [
            weight.flatten(1) @ pixels[:, r * ph : (r + 1) * ph, c * pw : (c + 1) * pw].flatten()
            for r in range(rows)
            for c in range(columns)
        ]
    )
    patches = patches + module.patch_embed.proj.bias
    named = [getattr(module, n, None) for n in ("cls_token", "dist_token", "reg_token")]
    prefix = [token[0] for token in named if token is not None]
    tokens = torch.cat([*prefix, patches])
    return tokens + module.pos_embed[0]


def slow_forward(module: nn.Module, pixels: Tensor) -> Slow:
    """pixels: (3, h, w) → logits (classes,) and everything on the way."""
    slow = Slow(torch.empty(0))
    x = embed(module, pixels)
    for block in module.blocks:
        slow.stream.append(x)
        heads = block.attn.num_heads
        read = norm(x, block.norm1)
        qkv = read @ block.attn.qkv.weight.T + block.attn.qkv.bias
        q, k, v = qkv.unflatten(1, (3, heads, -1)).unbind(1)  # (N, H, D)
        maps, outs = [], []
        for h in range(heads):
            scores = q[:, h] @ k[:, h].T / q.shape[-1] ** 0.5
            e = (scores - scores.amax(1, keepdim=True)).exp()
            maps.append(e / e.sum(1, keepdim=True))
        A = torch.stack(maps)
        for h in range(heads):
            outs.append(A[h] @ v[:, h])
        o = torch.stack(outs)
        slow.A.append(A)
        slow.o.append(o)
        merged = torch.cat(list(o), 1)
        x = x + merged @ block.attn.proj.weight.T + block.attn.proj.bias
        slow.middle.append(x)
        hidden = norm(x, block.norm2) @ block.mlp.fc1.weight.T + block.mlp.fc1.bias
        hidden = 0.5 * hidden * (1 + torch.erf(hidden / 2**0.5))
        x = x + hidden @ block.mlp.fc2.weight.T + block.mlp.fc2.bias
    slow.stream.append(x)
    x = norm(x, module.norm)
    if module.global_pool == "avg":
        pooled = norm(x[module.num_prefix_tokens :].mean(0), module.fc_norm)
        slow.logits = pooled @ module.head.weight.T + module.head.bias
    elif hasattr(module, "head_dist"):
        both = [x[i] @ h.weight.T + h.bias for i, h in enumerate((module.head, module.head_dist))]
        slow.logits = (both[0] + both[1]) / 2
    elif isinstance(module.head, nn.Identity):
        slow.logits = x[0]
    else:
        slow.logits = x[0] @ module.head.weight.T + module.head.bias
    return slow


def decision(module: nn.Module, tokens: int) -> Tensor:
    """The weights of the rows that feed the head, from the definition."""
    r = torch.zeros(tokens, dtype=torch.float64)
    if hasattr(module, "head_dist"):
        r[:2] = 0.5
    elif module.global_pool == "avg":
        r[module.num_prefix_tokens :] = 1 / (tokens - module.num_prefix_tokens)
    else:
        r[0] = 1
    return r
