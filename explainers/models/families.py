"""Which adapter reads a module; a reason for the families that none reads yet."""

from __future__ import annotations

from typing import Any

from torch import nn

from explainers.models.adapters import Adapter
from explainers.models.encoder_adapter import EncoderAdapter, find_encoder
from explainers.models.errors import ModelError
from explainers.models.libraries import library_adapter
from explainers.models.reference_adapter import ReferenceAdapter
from explainers.models.timm_adapter import TimmAdapter
from explainers.models.vit import VisionTransformer as ReferenceViT
from explainers.sentence import Sentence


def adapt(module: nn.Module, size: tuple[int, int] | None) -> Adapter:
    """The adapter of a module's family; ModelError says why a family is not read."""
    brought = library_adapter(module)
    if brought is not None:
        return brought
    # timm takes two seconds to import: only when a model is at hand.
    from timm.layers import Attention, PatchEmbed
    from timm.models.vision_transformer import Block, VisionTransformer

    if isinstance(module, VisionTransformer):
        blocks: list[Any] = list(module.blocks)
        standard = all(type(b) is Block and type(b.attn) is Attention for b in blocks)
        if standard and all(getattr(b.attn, "gate", None) is None for b in blocks):
            if isinstance(module.patch_embed, PatchEmbed):
                return TimmAdapter(module)
            raise _refusal(module, type(module.patch_embed).__name__)
        attention = getattr(blocks[0], "attn", None)
        raise _refusal(module, f"{type(blocks[0]).__name__}/{type(attention).__name__}")
    if isinstance(module, ReferenceViT):
        return ReferenceAdapter(module)
    encoder = find_encoder(module)
    if encoder is not None:
        return EncoderAdapter(module, encoder, size)
    raise _refusal(module, type(module).__name__)


def _refusal(module: nn.Module, part: str) -> ModelError:
    family = type(module).__name__
    if part == family:
        return ModelError(
            Sentence(
                "family_unknown",
                "{family} is not read yet: it is of another design than the plain Vision "
                "Transformer; plain, distilled, register and average-pooling ViTs of timm and "
                "models built on nn.TransformerEncoder are.",
                family=family,
            )
        )
    return ModelError(
        Sentence(
            "family_not_read",
            "{family} is not read yet (its {part} is of another design than the plain Vision "
            "Transformer's); plain, distilled, register and average-pooling ViTs of timm and "
            "models built on nn.TransformerEncoder are.",
            family=family,
            part=part,
        )
    )
