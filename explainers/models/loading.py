"""`load_model`: from a name or a file to a model that can be looked into."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from explainers.models import checkpoint, hub
from explainers.models.build import build, skeleton
from explainers.models.catalogue import EMBEDDED, PREFERRED
from explainers.models.devices import find_device, find_precision
from explainers.models.download import Progress
from explainers.models.errors import ModelError
from explainers.models.head_labels import head_labels
from explainers.models.hub_cache import cached_file
from explainers.models.labels import Labels, as_labels, given_labels
from explainers.models.own_heads import one_layer_head
from explainers.models.preprocessing import pixel_size
from explainers.models.recipe import Recipe, read_recipe
from explainers.models.reference_file import REFERENCES, build_reference
from explainers.models.vision_model import VisionModel
from explainers.models.wrapping import wrap_model
from explainers.sentence import Sentence

AUTO = "auto"
FOLDER = Path(__file__).with_name("weights")
_logger = logging.getLogger(__name__)

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
    dtype: str | torch.dtype = "float32",
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
    device: "auto" (CUDA, else MPS, else the CPU), or torch's name of one. dtype: "float32",
    "bfloat16" or "float16", the precision the model computes in; weights are read as float32.
    Raises ModelError, with one plain sentence, for everything that can go wrong.
    """
    pixels = None if size is None else pixel_size(size)
    target = find_device(device)
    precision = find_precision(dtype, target)
    text = str(name).strip()
    if text == AUTO:
        text = auto_name(cache_dir)
    file = "://" not in text and text.lower().endswith(checkpoint.SUFFIXES)
    if arch is not None and not file:
        raise ModelError(
            Sentence(
                "arch_of_a_name",
                "{name} has an architecture of its own; arch is for a file of weights only.",
                name=text,
            )
        )
    if text == EMBEDDED:
        vit = _embedded(pixels, labels)
    elif file:
        vit = _from_file(Path(text), arch, labels, pixels, allow_pickle)
    else:
        vit = _from_hub(text, labels, pixels, progress, download, cache_dir)
    vit.module.requires_grad_(False)
    vit.module.to(target, precision)
    return vit


def auto_name(cache_dir: str | Path | None = None) -> str:
    """What "auto" stands for now: the preferred model where it is cached, else "embedded".

    Never asks the network. A damaged copy in the cache is passed over, which the log says.
    """
    path = hub.cached_weights(PREFERRED, cache_dir)
    if path is None:
        return EMBEDDED
    try:
        hub.check_weights(path)
    except ModelError as error:
        _logger.warning("%s", error)
        return EMBEDDED
    return PREFERRED


def _embedded(size: tuple[int, int] | None, labels: Labels | None) -> VisionModel:
    card = next(FOLDER.glob("*.json"))
    recipe = cast(Recipe, read_recipe(card))  # the repository's own card has one
    module = build(recipe, checkpoint.read_tensors(card.with_suffix(".safetensors")), size)
    grids = json.loads(card.read_text(encoding="utf-8"))["grids"]
    return wrap_model(
        module,
        labels=_names(labels) or as_labels(recipe.labels, card.name),
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
    _demand_file(path)
    tensors = checkpoint.read_tensors(path, allow_pickle)
    recipe, given = checkpoint.file_recipe(path, arch), _names(labels)
    if recipe.architecture in REFERENCES:
        return _wrap(build_reference(recipe, tensors, size), path.name, recipe, given)
    config = hub.timm_config(recipe.architecture)
    classifier = (recipe.config or {}).get("classifier") or getattr(config, "classifier", None)
    tensors, note = _one_head(tensors, classifier, recipe, path.name)
    classes = checkpoint.head_classes(tensors, classifier)
    vit = _wrap(build(_with_classes(recipe, classes), tensors, size), path.name, recipe, given)
    vit.notes = (*vit.notes, *([] if note is None else [note]))
    return vit


def _one_head(
    tensors: dict[str, Tensor], classifier: Any, recipe: Recipe, source: str
) -> tuple[dict[str, Tensor], Sentence | None]:
    """The weights with the head under the model's own name; see `one_layer_head`."""
    if not isinstance(classifier, str) or f"{classifier}.weight" in tensors:
        return tensors, None
    headless = skeleton(_with_classes(recipe, 0)).state_dict()
    return one_layer_head(tensors, classifier, headless.keys(), source)


def _with_classes(recipe: Recipe, classes: int) -> Recipe:
    return replace(recipe, arguments={**recipe.arguments, "num_classes": classes})


def _demand_file(path: Path) -> None:
    if os.path.isfile(path):
        return
    if os.path.exists(path):
        raise ModelError(
            Sentence(
                "weights_folder",
                "A weights file was expected, and {path} is a folder or a device; name the file.",
                path=str(path),
            )
        )
    raise ModelError(
        Sentence(
            "weights_no_file",
            "There is no weights file {path}; check the name and the folder it is in.",
            path=str(path),
        )
    )


def _from_hub(
    name: str,
    labels: Labels | None,
    size: tuple[int, int] | None,
    progress: Progress | None,
    download: bool,
    cache_dir: str | Path | None,
) -> VisionModel:
    place = hub.source(name)
    given = _names(labels)
    recipe: Recipe | None = Recipe(place.name)
    if hub.CONFIG in place.files:
        recipe = read_recipe(_obtain(place, hub.CONFIG, progress, download, cache_dir))
    if recipe is None:
        raise ModelError(
            Sentence(
                "hub_not_timm",
                "{name} is not a model of timm (its config.json names no architecture); give "
                "one that is, or a .safetensors file with an architecture.",
                name=place.name,
            )
        )
    skeleton(recipe, size)  # refuse a family, or a size, before fetching the weights
    path = _obtain(place, place.files[-1], progress, download, cache_dir)
    return _wrap(build(recipe, path, size), place.name, recipe, given)


def _obtain(
    place: hub.Source,
    file: str,
    progress: Progress | None,
    download: bool,
    cache_dir: str | Path | None,
) -> Path:
    """A file of the Hub, from the cache or, where that is allowed, from the network."""
    if download:
        return hub.fetch_file(place, file, progress, cache_dir)
    path = cached_file(place.repo, file, place.revision, cache_dir)
    if path is None:
        raise ModelError(
            Sentence(
                "model_not_here",
                "{name} is not on this machine; allow its download, or choose a model that is "
                "here.",
                name=place.name,
            )
        )
    return path


def _wrap(module: Any, name: str, recipe: Recipe, given: tuple[str, ...] | None) -> VisionModel:
    """Wrap a module with the labels of its head, and say where they are guessed or lacking."""
    classes: int = module.num_classes
    labels, note = (given, None) if given or not classes else head_labels(recipe, classes)
    vit = wrap_model(module, labels=labels, name=name)
    if note is not None:
        vit.notes = (*vit.notes, note)
        if note.key == "embedding_head":
            vit.classes = 0
    return vit


def _names(labels: Labels | None) -> tuple[str, ...] | None:
    return None if labels is None else given_labels(labels)
