"""How other libraries write down a model's preprocessing, read into ours.

The settings are the same; the arithmetic is ours: Pillow resizes, which a library that resizes
tensors differs from by a level or two of 255, and an odd cut is rounded as torchvision does it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explainers.models.errors import ModelError
from explainers.models.hub_cache import cached_file
from explainers.models.preprocessing import Preprocessing
from explainers.sentence import Sentence

PROCESSOR = "preprocessor_config.json"
Size = tuple[int, int]

_PILLOW = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""Pillow's resampling filters in the order of their numbers, which processors store."""
_RESIZE_MODES = {"shortest": "center", "longest": "border", "squash": "squash"}  # open_clip's
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_HALVES = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
_OPENAI = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def read_preprocessing(given: Any, size: Size | None) -> Preprocessing:
    """Ours, an image processor of transformers, or torchvision's preset, as ours.

    size: the (height, width) asked for, where not the one the settings name.
    Raises ModelError for anything else.
    """
    if isinstance(given, Preprocessing):
        return given
    inner = getattr(given, "image_processor", given)  # a processor of photos and texts
    if hasattr(inner, "image_mean") and hasattr(inner, "to_dict"):
        return from_processor(inner.to_dict(), size)
    if all(hasattr(given, name) for name in ("crop_size", "resize_size", "mean", "std")):
        return _from_preset(given, size)
    raise ModelError(
        Sentence(
            "preprocessing_kind",
            "The preprocessing must be explainers.models.preprocessing.Preprocessing, an image "
            "processor of transformers or the transforms of torchvision's weights; {kind} came.",
            kind=type(given).__name__,
        )
    )


def from_processor(config: Mapping[str, Any], size: Size | None) -> Preprocessing:
    """What a preprocessor_config.json of transformers says."""
    factor = config.get("rescale_factor", 1 / 255)
    if config.get("do_rescale", True) and not math.isclose(factor, 1 / 255, rel_tol=1e-3):
        raise ModelError(
            Sentence(
                "processor_scale",
                "The image processor multiplies levels by {factor}; expected 1/255. Give "
                "preprocessing=Preprocessing(…) with a mean and std that say the same.",
                factor=factor,
            )
        )
    normalised = config.get("do_normalize", True)
    mean, std = config.get("image_mean"), config.get("image_std")
    if not normalised or mean is None or std is None:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    resize = config.get("size") or {}
    short = resize if isinstance(resize, int) else resize.get("shortest_edge")
    sides = (short, short) if short else (resize.get("height", 224), resize.get("width", 224))
    seen = sides
    if config.get("do_center_crop"):
        crop: Any = config.get("crop_size") or sides[0]
        seen = (crop, crop) if isinstance(crop, int) else (crop["height"], crop["width"])
    number = config.get("resample", 2)
    return Preprocessing(
        size=size or (int(seen[0]), int(seen[1])),
        mean=tuple(mean),
        std=tuple(std),
        interpolation=_PILLOW[number] if number in range(len(_PILLOW)) else "bilinear",
        crop_pct=part_kept(int(seen[0]), int(sides[0])),
        crop_mode="center" if short else "squash",
    )


def saved_processor(name_or_path: str) -> dict[str, Any] | None:
    """The settings saved beside a model of transformers, here or in the cache; never fetched."""
    if not name_or_path:
        return None
    beside = Path(name_or_path) / PROCESSOR
    path = beside if beside.is_file() else None
    if path is None and name_or_path.count("/") == 1 and not Path(name_or_path).exists():
        path = cached_file(name_or_path, PROCESSOR)
    try:
        found = None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "image_mean" in found else None


def usual_preprocessing(kind: str, size: Size) -> Preprocessing:
    """What most published models of a `model_type` of transformers were trained with."""
    mean, std = _HALVES if kind in ("vit", "beit", "data2vec-vision") else _IMAGENET
    if kind.startswith("clip"):
        return Preprocessing(size, *_OPENAI, "bicubic", 1.0)
    return Preprocessing(size, mean, std, "bilinear" if kind == "vit" else "bicubic", 1.0, "squash")


def from_open_clip(config: Mapping[str, Any], size: Size | None) -> Preprocessing:
    """What an image tower's ``preprocess_cfg`` says."""
    own = config.get("size", 224)
    height, width = (own, own) if isinstance(own, int) else own
    mode = _RESIZE_MODES.get(config.get("resize_mode", "shortest"), "center")
    return Preprocessing(
        size=size or (int(height), int(width)),
        mean=tuple(config.get("mean", _OPENAI[0])),
        std=tuple(config.get("std", _OPENAI[1])),
        interpolation=config.get("interpolation", "bicubic"),
        crop_pct=1.0,
        crop_mode=mode,  # type: ignore[arg-type]
    )


def _from_preset(preset: Any, size: Size | None) -> Preprocessing:
    crop, resized = preset.crop_size[0], preset.resize_size[0]
    return Preprocessing(
        size=size or (crop, crop),
        mean=tuple(preset.mean),
        std=tuple(preset.std),
        interpolation=str(getattr(preset.interpolation, "value", preset.interpolation)),
        crop_pct=part_kept(crop, resized),
    )


def part_kept(crop: int, resized: int) -> float:
    """The part of the resized side that is kept, so that crop / part is the side again."""
    part = crop / resized
    return part if math.floor(crop / part) == resized else math.nextafter(part, 0)
