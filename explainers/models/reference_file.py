"""The reference ViT and its concise twin from a weights file, at the size asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from explainers.models.checkpoint import differences
from explainers.models.errors import ModelError
from explainers.models.positions import Relative, resample, resample_table
from explainers.models.recipe import Recipe
from explainers.models.vit import ConciseVisionTransformer, VisionTransformer
from explainers.sentence import Sentence

REFERENCES: dict[str, type[nn.Module]] = {
    "reference_vit": VisionTransformer,
    "concise_vit": ConciseVisionTransformer,
}
"""Architectures by the names that a file's metadata gives them."""


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
    relative = isinstance(getattr(source, "positions", None), Relative)
    for name, values in state.items():
        if name == "pos_embed":
            state[name] = resample_table(values, old, new)
        elif name.startswith("positions."):
            part = name.removeprefix("positions.")
            state[name] = resample(part, values, old, new, relative)
    return state


def grid_of(module: Any) -> tuple[int, int]:
    """Rows and columns of patches of a reference ViT or its twin."""
    cell = getattr(module, "cell", module.patch_size)
    return module.image_size[0] // cell, module.image_size[1] // cell
