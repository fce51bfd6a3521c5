"""`wrap_model`: any module that is read here, as a `VisionModel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from explainers.models.adapters import Grid
from explainers.models.class_count import count_classes
from explainers.models.errors import ModelError
from explainers.models.families import adapt
from explainers.models.labels import Labels, given_labels, labels_unknown
from explainers.models.libraries import open_up
from explainers.models.library_preprocessing import read_preprocessing
from explainers.models.preprocessing import Preprocessing, pixel_size, require_whole_patches
from explainers.models.vision_model import VisionModel
from explainers.scalars import shown
from explainers.sentence import Sentence


def wrap_model(
    module: nn.Module,
    preprocessing: Any = None,
    labels: Labels | None = None,
    size: int | tuple[int, int] | None = None,
    *,
    name: str | None = None,
    trained_grids: Sequence[Grid] | None = None,
) -> VisionModel:
    """Make a module readable; a module of timm, torchvision, transformers or open_clip needs
    nothing else.

    preprocessing: a `Preprocessing`, an image processor of transformers, or the transforms of
    torchvision's weights; without it, what the module's own configuration says. labels: names,
    or a file of them.
    size: model input (height, width) in pixels, where the module does not say it. The
    module's weights, flags and mode stay as they are; it must be in evaluation mode.
    Raises ModelError where the family is not read, or labels and classes do not agree.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(
            Sentence(
                "module_kind",
                "A torch module was expected, and {kind} came; build the model, or name it to "
                "load_model.",
                kind=shown(module),
            )
        )
    pair = None if size is None else pixel_size(size)
    if next(module.parameters(), None) is None:
        raise ModelError(
            Sentence(
                "module_empty",
                "{family} has no weights, so there is nothing to explain; give a Vision "
                "Transformer.",
                family=type(module).__name__,
            )
        )
    brought = open_up(_unwrap(module), pair)
    module, notes = brought.module, brought.notes
    adapter = adapt(module, pair)
    if preprocessing is not None:
        preprocessing = read_preprocessing(preprocessing, pair)
        notes = tuple(note for note in notes if note.key != "preprocessing_usual")
    config = getattr(module, "pretrained_cfg", None) or {}
    trained = brought.trained or (config["input_size"][1:] if config.get("input_size") else None)
    if trained_grids is None and trained is not None:
        trained_grids = [adapter.grid(trained)]
    embed: Any = getattr(module, "patch_embed", None)
    if getattr(embed, "dynamic_img_pad", False):  # cells beyond the photo have no place on it
        require_whole_patches(pair or adapter.input_size or embed.img_size, adapter.patch)
    names = brought.labels if labels is None else given_labels(labels)
    vit = VisionModel(
        module=module,
        name=name or config.get("architecture") or type(module).__name__,
        preprocessing=preprocessing
        or brought.preprocessing
        or Preprocessing.from_timm(module, pair or adapter.input_size),
        adapter=adapter,
        classes=adapter.classes,
        labels=names,
        trained_grids=tuple(trained_grids) if trained_grids is not None else None,
        notes=notes,
    )
    embedding = brought.embedding and names is None
    vit.classes = 0 if embedding else count_classes(vit)
    if labels is None and vit.labels is not None and len(vit.labels) != vit.classes:
        vit.labels = None  # the names of the head that was there before
        vit.notes = (*vit.notes, labels_unknown(vit.classes))
    if vit.labels is not None and len(vit.labels) != vit.classes:
        raise ModelError(
            Sentence(
                "labels_count",
                "{labels} labels were given for a model of {classes} classes; give one a class.",
                labels=len(vit.labels),
                classes=vit.classes,
            )
        )
    return vit


def _unwrap(module: nn.Module) -> nn.Module:
    """The model inside DataParallel and torch.compile."""
    while True:
        inner: Any = getattr(module, "_orig_mod", None)
        if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = module.module
        if inner is None:
            return module
        module = inner
