"""The reference ViT and its concise twin from a weights file, at the size asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.models.checkpoint import differences
from explainers.models.errors import ModelError
from explainers.models.recipe import Recipe
from explainers.models.vit import ConciseVisionTransformer, VisionTransformer
from explainers.sentence import Sentence

REFERENCES: dict[str, type[nn.Module]] = {
    "reference_vit": VisionTransformer,
    "concise_vit": ConciseVisionTransformer,
}
"""Architectures by the names that a file's metadata gives them."""

CLS_OFFSETS = 3  # entries of a relative table that stand for CLS, after those of the offsets


def build_reference(
    recipe: Recipe, tensors: Mapping[str, Tensor], size: tuple[int, int] | None = None
) -> Any:
    """The module with its weights, in evaluation mode; positions resampled to another ``size``.

    Its ``model_args`` build it again; its ``pretrained_cfg`` says how it wants its photos.
    Raises ModelError where arguments, weights and size do not go together.
    """
    module, arguments = new_reference(recipe.architecture, recipe.arguments), recipe.arguments
    try:
        module.load_state_dict(dict(tensors))
    except RuntimeError as error:
        raise ModelError(
            Sentence(
                "reference_unfit",
                "The weights do not fit the {name} that the file describes: {differences}.",
                name=recipe.architecture,
                differences=differences(tensors, module) or str(error).split("\n")[-1].strip(),
            )
        ) from error
    if size is not None and size != module.image_size:
        arguments = {**arguments, "image_size": size}
        larger = new_reference(recipe.architecture, arguments)
        larger.load_state_dict(resampled(module, larger))
        module = larger
    module.model_args = dict(arguments)
    module.pretrained_cfg = {**(recipe.config or {}), "architecture": recipe.architecture}
    return module.eval()


def new_reference(architecture: str, arguments: Mapping[str, Any]) -> Any:
    """A reference ViT with random weights. Raises ModelError for arguments that do not fit."""
    try:
        module: Any = REFERENCES[architecture](**arguments)
        cell = getattr(module, "cell", module.patch_size)
        heads, width = arguments.get("heads", 12), arguments.get("width", 768)
        fits = all(side >= cell and side % cell == 0 for side in module.image_size)
        fits = fits and width % heads == 0
    except Exception as error:  # whatever a constructor does with settings of the wrong kind
        raise ModelError(
            Sentence(
                "reference_arguments",
                "{name} cannot be built with these settings ({reason}); check the file's "
                "model_args.",
                name=architecture,
                reason=str(error).split("\n")[0] or type(error).__name__,
            )
        ) from error
    if not fits:
        raise ModelError(
            Sentence(
                "reference_sizes",
                "The image must be whole patches and the width whole heads; got an image of "
                "{height}×{width} pixels with patches of {patch}, and width {channels} with "
                "{heads} heads.",
                height=module.image_size[0],
                width=module.image_size[1],
                patch=cell,
                channels=width,
                heads=heads,
            )
        )
    return module


def resampled(source: Any, target: Any) -> dict[str, Tensor]:
    """The source's weights for the target, which differs in its grid only.

    Positions are interpolated in two dimensions (Dosovitskiy et al., section 3.2), CLS's is
    kept. Learned tables of one position a patch go through timm's resampling, so that they are
    what timm's models get. On the same grid nothing changes, to the last bit.
    """
    state = dict(source.state_dict())
    old, new = grid_of(source), grid_of(target)
    if old == new:
        return state
    relative = getattr(getattr(source, "positions", None), "offsets", None) is not None
    for name in ("positions.table", "pos_embed"):
        if name in state:
            table = state[name]
            state[name] = _offsets(table, old, new) if relative else _patches(table, old, new)
    for name, length in (("positions.rows", new[0]), ("positions.columns", new[1])):
        if name in state and len(state[name]) != length:
            line = state[name].T[None]  # (1, W/2, rows)
            state[name] = F.interpolate(line, length, mode="linear", align_corners=False)[0].T
    return state


def grid_of(module: Any) -> tuple[int, int]:
    """Rows and columns of patches of a reference ViT or its twin."""
    cell = getattr(module, "cell", module.patch_size)
    return module.image_size[0] // cell, module.image_size[1] // cell


def _patches(table: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """(1, 1 + N, W) → (1, 1 + new N, W)."""
    from timm.layers import resample_abs_pos_embed

    resized: Tensor = resample_abs_pos_embed(table, list(new), list(old), num_prefix_tokens=1)
    return resized


def _offsets(table: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """((2 rows − 1)(2 columns − 1) + 3, H) → the same for the new grid; offset 0 stays itself."""
    offsets, cls = table[:-CLS_OFFSETS], table[-CLS_OFFSETS:]
    plane = offsets.T.unflatten(1, (2 * old[0] - 1, 2 * old[1] - 1))[None]  # (1, H, …, …)
    shape = (2 * new[0] - 1, 2 * new[1] - 1)
    plane = F.interpolate(plane, shape, mode="bicubic", align_corners=True)
    return torch.cat([plane[0].flatten(1).T, cls])
