"""Giving timm's ViT fewer tokens: its own forward pass, with some patches left out.

The module's own pieces run in their own order, so nothing on it changes and people can do
this to one shared model at the same time. Tokens are left out after their positions were
added: a token that stays keeps its place, and one that is left out is read by no block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from explainers.models.errors import ModelError
from explainers.registry import Support
from explainers.sentence import Sentence


def timm_support(module: nn.Module) -> Support:
    """Whether the module's forward pass is timm's own, whose pieces are known here."""
    from timm.models.vision_transformer import VisionTransformer

    kind = type(module)
    own = all(
        getattr(kind, name) is getattr(VisionTransformer, name) and name not in vars(module)
        for name in ("forward", "forward_features")
    )
    return Support(True) if own else no_support(kind.__name__)


def no_support(family: str) -> Support:
    """The refusal for models whose forward pass is not known piece by piece."""
    return Support(
        False,
        Sentence(
            "no_token_removal",
            "{family} models run their forward pass in a way of their own, so tokens cannot be "
            "taken out of it; fill the hidden patches instead.",
            family=family,
        ),
    )


def forward_tokens(module: Any, pixels: Tensor, keep: Tensor) -> Tensor:
    """The answer (B, classes) of a timm ViT that is given only some of its patch tokens.

    pixels: (B, 3, h, w), or (1, 3, h, w) for one photo and B sets of patches. keep: (B, n)
    whole numbers, the patches kept, counted in reading order. Prefix tokens always stay;
    average pooling means over the patches kept. With all of them kept, in order, the answer
    is the module's own, bit for bit.
    """
    if not keep.shape[1]:
        raise ModelError(
            Sentence(
                "no_tokens_left",
                "With every patch taken out the model would have nothing to look at; hide "
                "smaller squares.",
            )
        )
    tokens = module._pos_embed(module.patch_embed(pixels))  # (1 or B, prefix + N, width)
    prefix = module.num_prefix_tokens
    rows = torch.arange(prefix, device=keep.device).expand(len(keep), -1)
    rows = torch.cat([rows, keep + prefix], 1)  # (B, prefix + n)
    tokens = module.norm_pre(_chosen(tokens, rows))
    return module.forward_head(module.norm(module.blocks(tokens)))


def _chosen(tokens: Tensor, rows: Tensor) -> Tensor:
    """tokens (1 or B, N, width) at rows (B, n): (B, n, width), laid out in memory as before.

    A model without prefix tokens has them width-first; another layout would sum the same
    numbers in another order and round differently.
    """
    if not tokens.is_contiguous():
        return _gather(tokens.mT, rows[:, None], 2).mT
    return _gather(tokens, rows[..., None], 1)


def _gather(tokens: Tensor, places: Tensor, along: int) -> Tensor:
    other = 3 - along
    shape = [len(places), -1, -1]
    shape[other] = tokens.shape[other]
    return tokens.expand(len(places), -1, -1).gather(along, places.expand(shape))
