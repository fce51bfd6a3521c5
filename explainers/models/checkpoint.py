"""Weights files: reading their tensors, and saying what in them does not fit a model."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from explainers.models.errors import ModelError
from explainers.models.hub import CONFIG, check_weights
from explainers.models.recipe import Recipe, header_recipe, read_recipe
from explainers.sentence import Sentence

PICKLES = (".pth", ".pt", ".bin")
SUFFIXES = (".safetensors", *PICKLES)
_WRAPPERS = ("module.", "model.", "_orig_mod.")  # data parallel, Lightning, torch.compile
_CONTAINERS = ("state_dict_ema", "model_ema", "state_dict", "model", "model_state_dict")
MOST_NAMED = 3  # differences that a refusal names

_logger = logging.getLogger(__name__)


def file_recipe(path: Path, arch: str | None) -> Recipe:
    """The recipe of a weights file: ``arch``, else its header's, else config.json beside it.

    A ``config`` in the header, or config.json, also gives sizes, labels, mean and std where it
    speaks of that same architecture. Files saved by ``python -m training`` have such a header.
    """
    header, beside = _header(path), path.with_name(CONFIG)
    recipe = header_recipe(header.get("config", ""), path.name)
    if recipe is None and beside.is_file():
        recipe = read_recipe(beside)
    named = str(arch) if arch else header.get("architecture")
    if named is None and recipe is None:
        raise ModelError(
            Sentence(
                "weights_no_architecture",
                "{name} does not say which architecture it is for; name it, for example "
                "arch='vit_base_patch16_224' (--arch on the command line).",
                name=path.name,
            )
        )
    if recipe is None or (named and named.split(".")[0] != recipe.architecture.split(".")[0]):
        return Recipe(named or "", foreign=True)
    return replace(recipe, architecture=named or recipe.architecture)


def _header(path: Path) -> dict[str, str]:
    """The metadata in a safetensors header."""
    if path.suffix.lower() != ".safetensors":
        return {}
    from safetensors import safe_open

    check_weights(path)
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


def read_tensors(path: Path, allow_pickle: bool = False) -> dict[str, Tensor]:
    """The weights of a file: float32 where they are floating, names without wrappers.

    Raises ModelError for damaged files, and for pickles unless ``allow_pickle``; even then
    only tensors are unpickled (torch's weights_only), never code.
    """
    if path.suffix.lower() == ".safetensors":
        from safetensors.torch import load_file

        check_weights(path)
        found: Any = load_file(path)
    else:
        found = _unpickle(path, allow_pickle)
    tensors = {
        _unwrapped(name): value.float() if value.is_floating_point() else value
        for name, value in found.items()
        if isinstance(value, Tensor) and isinstance(name, str)
    }
    if not tensors:
        raise ModelError(
            Sentence("weights_empty", "{name} holds no weights; expected tensors.", name=path.name)
        )
    return tensors


def _unpickle(path: Path, allow_pickle: bool) -> Any:
    if not allow_pickle:
        raise ModelError(
            Sentence(
                "pickle_refused",
                "{name} is a pickle, and opening a stranger's pickle can run their program; "
                "save the weights as .safetensors. The command line, and allow_pickle=True, "
                "open it and read nothing but tensors.",
                name=path.name,
            )
        )
    try:
        with warnings.catch_warnings(action="ignore"):  # torch's, about the pickle's version
            found = torch.load(path, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # a damaged pickle makes torch raise nearly anything
        raise ModelError(
            Sentence(
                "pickle_unreadable",
                "{name} is damaged, or holds a program besides tensors, which is not opened; "
                "save model.state_dict() alone, best as .safetensors.",
                name=path.name,
            )
        ) from error
    for key in _CONTAINERS:
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            _logger.info("using %r of %s", key, path.name)
            return found[key]
    return found if isinstance(found, dict) else {}


def _unwrapped(name: str) -> str:
    while name.startswith(_WRAPPERS):
        name = name.split(".", 1)[1]
    return name


def head_classes(tensors: Mapping[str, Tensor], classifier: Any) -> int:
    """Rows of the head's weight; 0 when the file has no head. ``classifier``: timm's name(s)."""
    names = (classifier,) if isinstance(classifier, str) else tuple(classifier or ())
    for name in (*names, "head", "head.fc", "fc"):
        weight = tensors.get(f"{name}.weight")
        if weight is not None and weight.ndim:
            return weight.shape[0]
    return 0


def stored_grid(tensors: Mapping[str, Tensor], module: Any) -> tuple[int, int] | None:
    """The square grid that a file's position embeddings cover; None without one.

    Raises ModelError when they fit neither the model's own grid nor any square: two sides
    cannot be told from their product.
    """
    positions, own = tensors.get("pos_embed"), getattr(module, "pos_embed", None)
    if positions is None or own is None or positions.ndim != own.ndim:
        return None
    if not hasattr(module, "no_embed_class"):  # a family whose positions are laid out otherwise
        return None
    grid = module.patch_embed.grid_size
    prefix = 0 if module.no_embed_class else module.num_prefix_tokens
    patches = positions.shape[1] - prefix
    if patches == math.prod(grid):
        return tuple(grid)
    side = math.isqrt(max(patches, 0))
    if side and side * side == patches:
        return side, side
    raise ModelError(
        Sentence(
            "positions_not_square",
            "The file's positions cover {patches} patches, which are no square; give the size "
            "the model was trained at, size=(height, width).",
            patches=patches,
        )
    )


def differences(tensors: Mapping[str, Tensor], module: nn.Module) -> str:
    """The first differences between a file and a model, in words; "" when none is seen."""
    own = module.state_dict()
    words = [
        f"{name} is {_shape(tensors[name])} in the file and {_shape(tensor)} in the model"
        for name, tensor in own.items()
        if name != "pos_embed" and name in tensors and tensors[name].shape != tensor.shape
    ]
    words += [f"{name} is missing from the file" for name in own if name not in tensors]
    words += [f"{name} is unknown to the model" for name in tensors if name not in own]
    more = len(words) - MOST_NAMED
    return "; ".join(words[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "one number"
