"""Making the maps of a recipe again: the same numbers, and a sentence where that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, cast

import torch

from explainers.heatmap import HeatMap
from explainers.image import Photo
from explainers.methods.explain import explain
from explainers.models.devices import PRECISIONS
from explainers.models.loading import load_model
from explainers.models.sizes import at_size, uncut
from explainers.models.vision_model import VisionModel
from explainers.recipe import AIMS, MapRecipe, RecipeError, plain
from explainers.sentence import Sentence
from explainers.separate_looks import SeparateLooks
from explainers.trace import Trace

Load = Callable[..., VisionModel]
"""Called with a model's name; ``size=`` and ``dtype=`` are given where they are not its own."""


def replay(
    recipe: MapRecipe, photos: Photo | Sequence[Photo], load: Load = load_model
) -> list[HeatMap]:
    """Make the maps of a recipe again: the same numbers, bit for bit, on the same machine.

    photos: those that the recipe was made from, in any order. load: how a model is had by its
    name. torch uses as many threads as it did then, and afterwards as many as before. Raises
    RecipeError where a photo, the weights or anything else is not what the recipe tells.
    """
    given = [photos] if isinstance(photos, Photo) else list(photos)
    by_hash = {photo.sha256: photo for photo in given}
    for wanted in recipe.photos:
        if wanted not in by_hash:
            raise RecipeError(
                Sentence(
                    "recipe_photo",
                    "The recipe was made from another photo than {names}; give the same picture, "
                    "pixel for pixel.",
                    names=", ".join(photo.name for photo in given) or "none",
                )
            )
    models: dict[tuple[Any, ...], VisionModel] = {}
    traces: dict[tuple[int, str], Trace] = {}
    heats = []
    for made in recipe.maps:
        loaded = made["model"], *made["preprocessing"]["size"], made["precision"]
        if loaded not in models:
            models[loaded] = _load(load, made)
        vit = models[loaded]
        _check_model(vit, made)
        with _threads(made["threads"]):
            photo = by_hash[made["photo_sha256"]]
            if "windows" in made:
                heats.append(_looked_again(vit, photo, made))
                continue
            key = id(vit), photo.sha256
            if key not in traces:
                traces[key] = vit.trace(photo)
            heats.append(_made_again(traces[key], made))
    return heats


def _made_again(trace: Trace, made: Mapping[str, Any]) -> HeatMap:
    target, against = (_class(trace.model, made[aim]) for aim in AIMS)
    heat = explain(made["method"], trace, target, against, **made["parameters"])
    return cast(HeatMap, heat)


def _looked_again(vit: VisionModel, photo: Photo, made: Mapping[str, Any]) -> HeatMap:
    """A map that is the mean of separate looks through windows."""
    looks = SeparateLooks(vit, photo, made["windows"]["long_side"], made["windows"]["overlap"])
    target, against = (_class(vit, made[aim]) for aim in AIMS)
    return looks.explain(made["method"], target, against, **made["parameters"])


def _class(vit: VisionModel, aim: Mapping[str, Any] | None) -> int | None:
    """A class of the recipe; its name here must be the name there, for maps tell it."""
    if aim is None:
        return None
    index = vit.find_class(aim["index"])
    if vit.label(index) != aim["label"]:
        raise RecipeError(
            Sentence(
                "recipe_label",
                "Class {index} is {then} in the recipe and {now} here; give the same labels.",
                index=index,
                then=aim["label"],
                now=vit.label(index),
            )
        )
    return index


def _load(load: Load, made: Mapping[str, Any]) -> VisionModel:
    """The model as it looked then: by itself, at the whole of a photo, or at another size."""
    precision = {} if made["precision"] not in PRECISIONS else {"dtype": made["precision"]}
    vit = load(made["model"])
    if _precision(vit) != made["precision"]:
        vit = load(made["model"], **precision)
    size = tuple(made["preprocessing"]["size"])
    if _prepares(vit) == made["preprocessing"]:
        return vit
    if made["preprocessing"].get("crop_mode") == "squash":
        whole = uncut(at_size(vit, size))
        if _prepares(whole) == made["preprocessing"]:
            return whole
    return (
        vit
        if tuple(vit.preprocessing.size) == size
        else load(made["model"], size=size, **precision)
    )


def _prepares(vit: VisionModel) -> dict[str, Any]:
    return plain(asdict(vit.preprocessing))


def _precision(vit: VisionModel) -> str:
    return str(vit.dtype).removeprefix("torch.")


def _check_model(vit: VisionModel, made: Mapping[str, Any]) -> None:
    if vit.weights_hash != made["loaded_weights_sha256"]:
        raise RecipeError(
            Sentence(
                "recipe_weights",
                "The recipe was made with other weights than those of {name} here; give the "
                "model file that it was made with.",
                name=vit.name,
            )
        )
    if _precision(vit) != made["precision"]:
        raise RecipeError(
            Sentence(
                "recipe_precision",
                "The recipe was made in {then}, and {name} is here in {now}; convert the model.",
                then=made["precision"],
                now=_precision(vit),
                name=vit.name,
            )
        )
    if _prepares(vit) != made["preprocessing"]:
        raise RecipeError(
            Sentence(
                "recipe_preprocessing",
                "{name} prepares photos here in another way than in the recipe; load it with the "
                "same configuration.",
                name=vit.name,
            )
        )


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
