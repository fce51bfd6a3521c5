"""`load_model`: from a name or a file to a model that can be looked into."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from explainers.models import checkpoint, hub
from explainers.models.build import build, skeleton
from explainers.models.checkpoint import Recipe
from explainers.models.download import Progress
from explainers.models.errors import ModelError
from explainers.models.hub_cache import discard
from explainers.models.labels import as_labels, imagenet_labels, read_labels
from explainers.models.vision_model import VisionModel, wrap_model
from explainers.sentence import Sentence

EMBEDDED = "embedded"
AUTO = "auto"
PREFERRED = "vit_base_patch16_224.augreg2_in21k_ft_in1k"
"""What `auto` takes where it is in the cache."""

WEIGHTS = Path(__file__).with_name("weights")
_NO_CLASS_WORDS = ("clip", "pe_core")  # towers trained against text, whose head is an embedding

_logger = logging.getLogger(__name__)

Labels = str | Path | Sequence[str]
Size = int | tuple[int, int]


def load_model(
    name: str | Path = AUTO,
    *,
    arch: str | None = None,
    labels: Labels | None = None,
    size: Size | None = None,
    progress: Progress | None = None,
    download: bool = True,
    cache_dir: str | Path | None = None,
    device: str = "auto",
    allow_pickle: bool = False,
) -> VisionModel:
    """Load a model by name, in evaluation mode and with its weights frozen.

    name: "embedded" (in the repository); "auto" (the preferred model where it is cached, else
    embedded; never the network); a timm name, tag optional; hf-hub:owner/model; or a path to
    weights, .safetensors (or .pth, .pt, .bin with ``allow_pickle``), whose architecture is
    ``arch``, else the file's metadata, else config.json beside it.
    labels: names, or a .txt or .json file of them. size: another model input (height, width)
    in pixels, for which the positions are resampled. progress(done, total): bytes of a
    download; cancels by raising. ``download`` False: only what is on this machine.
    device: "auto", or torch's name of one.
    Raises ModelError, with one plain sentence, for everything that can go wrong.
    """
    pixels = _pair(size)
    target = _device(device)
    text = str(name)
    if text == AUTO:
        text = PREFERRED if _ready(PREFERRED, cache_dir) else EMBEDDED
    if text == EMBEDDED:
        vit = _embedded(pixels, labels)
    elif "://" not in text and text.lower().endswith(checkpoint.SUFFIXES):
        vit = _from_file(Path(text), arch, labels, pixels, allow_pickle)
    else:
        vit = _from_hub(text, labels, pixels, progress, download, cache_dir)
    vit.module.requires_grad_(False)
    vit.module.to(target)
    return vit


def _ready(name: str, cache_dir: str | Path | None) -> bool:
    """Whether a model is in the cache, whole; a damaged copy is said in the log."""
    path = hub.cached_weights(name, cache_dir)
    try:
        if path is not None:
            hub.check_weights(path)
    except ModelError as error:
        _logger.warning("%s", error)
        return False
    return path is not None


def _embedded(size: tuple[int, int] | None, labels: Labels | None) -> VisionModel:
    card = next(WEIGHTS.glob("*.json"))
    recipe = checkpoint.read_recipe(card)
    assert recipe is not None
    module = build(recipe, checkpoint.read_tensors(card.with_suffix(".safetensors")), size)
    grids = json.loads(card.read_text(encoding="utf-8"))["grids"]
    return wrap_model(
        module,
        labels=_given(labels) or as_labels(recipe.labels, card.name),
        name=EMBEDDED,
        trained_grids=[(rows, columns) for rows, columns in grids["trained"] + grids["measured"]],
    )


def _from_file(
    path: Path,
    arch: str | None,
    labels: Labels | None,
    size: tuple[int, int] | None,
    allow_pickle: bool,
) -> VisionModel:
    if not path.is_file():
        raise ModelError(
            Sentence("weights_no_file", "There is no weights file {path}.", path=str(path))
        )
    tensors = checkpoint.read_tensors(path, allow_pickle)
    recipe = checkpoint.file_recipe(path, arch)
    config = hub.timm_config(recipe.architecture)
    classifier = (recipe.config or {}).get("classifier") or getattr(config, "classifier", None)
    classes = checkpoint.head_classes(tensors, classifier)
    recipe = replace(recipe, arguments={**recipe.arguments, "num_classes": classes})
    module = build(recipe, tensors, size)
    return _wrap(module, path.name, recipe, _given(labels), assumed=True)


def _from_hub(
    name: str,
    labels: Labels | None,
    size: tuple[int, int] | None,
    progress: Progress | None,
    download: bool,
    cache_dir: str | Path | None,
) -> VisionModel:
    place = hub.source(name)
    names = _given(labels)
    if hub.CONFIG not in place.files:
        skeleton(Recipe(place.name), size)  # refuse a family before fetching its weights
    path = hub.cached_weights(place.name, cache_dir)
    if path is not None and download and not _ready(place.name, cache_dir):
        discard(path)
        path = None
    if path is None:
        if not download:
            raise ModelError(
                Sentence(
                    "model_not_here",
                    "{name} is not on this machine; allow its download, or choose a model that "
                    "is here.",
                    name=place.name,
                )
            )
        path = hub.fetch(place.name, progress, cache_dir)
    recipe: Recipe | None = Recipe(place.name)
    if hub.CONFIG in place.files:
        recipe = checkpoint.read_recipe(path.with_name(hub.CONFIG))
    if recipe is None:
        raise ModelError(
            Sentence(
                "hub_not_timm",
                "{name} is not a model of timm (its config.json names no architecture); give "
                "one that is, or a .safetensors file with an architecture.",
                name=place.name,
            )
        )
    module = build(recipe, path, size)
    return _wrap(module, place.name, recipe, names, assumed=False)


def _wrap(
    module: Any,
    name: str,
    recipe: Recipe,
    given: tuple[str, ...] | None,
    *,
    assumed: bool,
) -> VisionModel:
    """Wrap a module with the labels that belong to its head, and say where none do.

    ``assumed``: nothing but their number says that the classes are ImageNet's.
    """
    classes: int = module.num_classes
    notes: list[Sentence] = []
    labels = given
    if labels is None and classes:
        labels = _written(recipe, classes) or None
        if labels is None:
            labels = imagenet_labels(classes)
            assumed = assumed and labels is not None
        else:
            assumed = False
    embedding = labels is None and any(word in recipe.architecture for word in _NO_CLASS_WORDS)
    if embedding and classes:
        notes.append(
            Sentence(
                "embedding_head",
                "This model answers with {width} numbers made to be compared with a text's, not "
                "with classes, so it is shown as a model without a head.",
                width=classes,
            )
        )
    elif labels is None and classes:
        notes.append(
            Sentence(
                "labels_unknown",
                "The names of this model's {classes} classes are not known; they are shown by "
                "index. A label file names them.",
                classes=classes,
            )
        )
    elif given is None and classes and assumed:
        notes.append(
            Sentence(
                "labels_assumed",
                "The weights do not name their {classes} classes; from that number they are "
                "taken to be ImageNet's. A label file corrects it.",
                classes=classes,
            )
        )
    vit = wrap_model(module, labels=labels, name=name)
    vit.notes = (*vit.notes, *notes)
    if embedding:
        vit.classes = 0
    return vit


def _given(labels: Labels | None) -> tuple[str, ...] | None:
    if labels is None:
        return None
    if isinstance(labels, (str, Path)):
        return read_labels(labels)
    return as_labels(list(labels), "labels")


def _written(recipe: Recipe, classes: int) -> tuple[str, ...] | None:
    """The labels written in the configuration, where there is one a class."""
    if not recipe.labels:
        return None
    labels = as_labels(recipe.labels, hub.CONFIG)
    return labels if len(labels) == classes else None


def _pair(size: Size | None) -> tuple[int, int] | None:
    if size is None:
        return None
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or not all(isinstance(side, int) and side > 0 for side in pair):
        raise ModelError(
            Sentence(
                "size_numbers",
                "The size is a number of pixels or (height, width); got {size}.",
                size=size,
            )
        )
    return pair[0], pair[1]


def _device(name: str) -> torch.device:
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            Sentence(
                "device_unknown",
                "There is no device {name!r} here; try 'auto' or 'cpu'.",
                name=name,
            )
        ) from error
