"""What a module of another library brings along: the part to read, preprocessing, names, notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from explainers.models import library_preprocessing as written
from explainers.models.adapters import Adapter
from explainers.models.open_clip_adapter import (
    OpenClipAdapter,
    from_open_clip,
    image_tower,
    refuse_tower,
)
from explainers.models.preprocessing import Preprocessing
from explainers.models.swin_adapter import SwinAdapter, torchvision_swin, transformers_swin
from explainers.models.torchvision_adapter import (
    TorchvisionAdapter,
    swin_preprocessing,
    weights_preprocessing,
)
from explainers.models.transformers_adapter import (
    adapt_transformers,
    config_labels,
    from_transformers,
)
from explainers.sentence import Sentence

Size = tuple[int, int]


@dataclass(frozen=True)
class Brought:
    """module: what is run and read. trained: the (height, width) its positions are for.
    embedding: it answers with an embedding, not with classes.
    """

    module: nn.Module
    preprocessing: Preprocessing | None = None
    labels: tuple[str, ...] | None = None
    trained: Size | None = None
    embedding: bool = False
    notes: tuple[Sentence, ...] = ()


def open_up(module: nn.Module, size: Size | None) -> Brought:
    """The part of a module that is read here, with what its library says of it.

    size: the (height, width) of the input asked for. A module of no library that is known here
    is handed back as it is.
    """
    if from_open_clip(module):
        return _open_clip(module, size)
    if from_transformers(module):
        return _transformers(module, size)
    if _torchvision_swin(module):
        built = torchvision_swin(module).size
        return Brought(module, swin_preprocessing(size or built))
    if _torchvision(module):
        side: Any = module.image_size
        own = side, side
        return Brought(module, weights_preprocessing(size or own), trained=own)
    return Brought(module)


def library_adapter(module: nn.Module, size: Size | None) -> Adapter | None:
    """The adapter of another library's module, imported by none; None for other modules."""
    if from_transformers(module):
        return _adapt_transformers(module, size)
    if from_open_clip(module):
        if type(module).__name__ == "VisionTransformer":
            return OpenClipAdapter(module)
        raise refuse_tower(module, "")
    if _torchvision_swin(module):
        return SwinAdapter(module, torchvision_swin(module), size)
    return TorchvisionAdapter(module) if _torchvision(module) else None


def _adapt_transformers(module: Any, size: Size | None) -> Adapter:
    if type(module).__name__ in ("SwinModel", "SwinForImageClassification"):
        return SwinAdapter(module, transformers_swin(module), size)
    return adapt_transformers(module)


def _torchvision(module: nn.Module) -> bool:
    return _is_a(module, "torchvision.models.vision_transformer", "VisionTransformer")


def _torchvision_swin(module: nn.Module) -> bool:
    return _is_a(module, "torchvision.models.swin_transformer", "SwinTransformer")


def _is_a(module: nn.Module, file: str, name: str) -> bool:
    return any((kind.__module__, kind.__name__) == (file, name) for kind in type(module).__mro__)


def _open_clip(module: nn.Module, size: Size | None) -> Brought:
    tower = image_tower(module)
    config = getattr(tower, "preprocess_cfg", None)
    preprocessing = written.from_open_clip(config, size) if config else None
    notes: tuple[Sentence, ...] = ()
    trained: Size | None = None
    if type(tower).__name__ == "TimmModel":
        if len(tower.head):
            notes = (_LEFT_OUT,)
        tower = tower.trunk
    else:
        trained = getattr(tower, "image_size", None)
    return Brought(tower, preprocessing, trained=trained, embedding=True, notes=notes)


def _transformers(module: Any, size: Size | None) -> Brought:
    adapter = _adapt_transformers(module, None)
    labels = config_labels(module) if adapter.classes else None
    trained = adapter.input_size
    saved = written.saved_processor(getattr(module, "name_or_path", "") or "")
    if saved is not None:
        return Brought(module, written.from_processor(saved, size), labels, trained)
    kind = module.config.model_type
    usual = written.usual_preprocessing(kind, size or trained or (224, 224))
    note = Sentence(
        "preprocessing_usual",
        "How photos are prepared is not saved with this model, so what is usual for {kind} is "
        "done: mean {mean}, std {std}. preprocessing=AutoImageProcessor.from_pretrained(…) "
        "says it exactly.",
        kind=kind,
        mean=", ".join(f"{value:g}" for value in usual.mean),
        std=", ".join(f"{value:g}" for value in usual.std),
    )
    return Brought(module, usual, labels, trained, notes=(note,))


_LEFT_OUT = Sentence(
    "projection_left_out",
    "This tower ends in a projection after its timm model; the timm model's own features are "
    "explained, before that projection.",
)
