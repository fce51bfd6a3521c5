"""Which adapter reads a module; a reason for the families that none reads yet."""

from __future__ import annotations

from torch import nn

from explainers.models.adapters import Adapter
from explainers.models.encoder_adapter import EncoderAdapter, find_encoder
from explainers.models.errors import ModelError
from explainers.models.libraries import library_adapter
from explainers.models.reference_adapter import ReferenceAdapter
from explainers.models.timm_adapter import TimmAdapter, is_token_model
from explainers.models.timm_blocks import read_blocks
from explainers.models.timm_encoder_adapter import TimmEncoderAdapter, is_language_encoder
from explainers.models.vit import VisionTransformer as ReferenceViT
from explainers.sentence import Sentence


def adapt(module: nn.Module, size: tuple[int, int] | None) -> Adapter:
    """The adapter of a module's family; ModelError says why a family is not read."""
    brought = library_adapter(module)
    if brought is not None:
        return brought
    if is_token_model(module):
        blocks: list[nn.Module] = list(module.blocks)  # type: ignore[arg-type]
        parts = read_blocks(blocks)
        if parts is not None:
            return TimmAdapter(module, parts)
    if is_language_encoder(module):
        return TimmEncoderAdapter(module)
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
