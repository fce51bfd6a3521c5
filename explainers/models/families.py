"""Which adapter reads a module; a reason for the families that none reads yet."""

from __future__ import annotations

from torch import nn

from explainers.models.adapters import Adapter
from explainers.models.encoder_adapter import EncoderAdapter, find_encoder
from explainers.models.errors import ModelError
from explainers.models.feature_map_adapter import FeatureMapAdapter, has_feature_map
from explainers.models.libraries import library_adapter
from explainers.models.probed_adapter import ProbedAdapter, is_program
from explainers.models.reference_adapter import ReferenceAdapter
from explainers.models.sam_adapter import SamAdapter, is_sam
from explainers.models.timm_adapter import TimmAdapter, is_token_model
from explainers.models.timm_blocks import read_blocks
from explainers.models.timm_encoder_adapter import TimmEncoderAdapter, is_language_encoder
from explainers.models.vit import VisionTransformer as ReferenceViT
from explainers.sentence import Sentence


def adapt(module: nn.Module, size: tuple[int, int] | None) -> Adapter:
    """The adapter of a module's family; ModelError says why a family is not read."""
    brought = library_adapter(module, size)
    if brought is not None:
        return brought
    if is_token_model(module):
        blocks: list[nn.Module] = list(module.blocks)  # type: ignore[arg-type]
        parts = read_blocks(blocks)
        if parts:
            return TimmAdapter(module, parts)
    if is_language_encoder(module):
        return TimmEncoderAdapter(module)
    if is_sam(module):
        return SamAdapter(module)
    if isinstance(module, ReferenceViT):
        return ReferenceAdapter(module)
    encoder = find_encoder(module)
    if encoder is not None:
        return EncoderAdapter(module, encoder, size)
    if has_feature_map(module):
        by_map = FeatureMapAdapter(module, size)
        if by_map.attends:
            return by_map
    else:
        probed = ProbedAdapter(module, size)
        if probed.attends or is_program(module):
            return probed
    raise ModelError(
        Sentence(
            "family_unknown",
            "{family} is not read yet: it is no Vision Transformer of a known design, and no "
            "classifier with attention that is cut into forward_features and forward_head, as "
            "timm's are.",
            family=type(module).__name__,
        )
    )
