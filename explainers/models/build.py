"""Build a timm model around weights: the right size, and one sentence where they do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from explainers.models.checkpoint import differences, read_tensors, stored_grid
from explainers.models.errors import ModelError
from explainers.models.families import adapt
from explainers.models.hub import check_weights
from explainers.models.preprocessing import require_whole_patches
from explainers.models.recipe import Recipe
from explainers.sentence import Sentence

Size = tuple[int, int]


def build(recipe: Recipe, weights: Path | dict[str, Tensor], size: Size | None) -> Any:
    """The module with its weights, float32, in evaluation mode.

    weights: the file of a published checkpoint, or the tensors of one of the user's own, whose
    positions then tell the model's size where ``size`` (height, width) does not.
    Raises ModelError where architecture, size and weights do not go together.
    """
    import timm

    empty = skeleton(recipe, size)
    overlay: dict[str, Any] = {"source": None, "custom_load": False}
    if isinstance(weights, Path):
        check_weights(weights)
        overlay["file"] = str(weights)
    else:
        _demand_patch(weights, empty, recipe)
        overlay |= {"state_dict": weights, "num_classes": empty.num_classes}
        grid = stored_grid(weights, empty)
        if grid is not None:
            patch = empty.patch_embed.patch_size
            trained = (grid[0] * patch[0], grid[1] * patch[1])
            overlay["input_size"] = (3, *trained)
            size = size or (trained if grid != empty.patch_embed.grid_size else None)
    try:
        module: Any = timm.create_model(
            recipe.architecture,
            pretrained=True,
            pretrained_cfg=recipe.config,
            pretrained_cfg_overlay=overlay,
            **_arguments(recipe, size),
            **_no_draw(empty),
        )
    except Exception as error:  # timm's own conversions fail in many ways on a foreign file
        raise _unfit(recipe, weights, empty, error) from error
    for key in ("state_dict", "file"):  # neither a second copy nor a path stays on the module
        module.pretrained_cfg.pop(key, None)
    return module.eval()


def skeleton(recipe: Recipe, size: Size | None = None) -> Any:
    """The module without weights or memory (on torch's meta device), its family accepted.

    Raises ModelError for a family that is not read, or a size the model cannot take.
    """
    import timm

    try:
        with torch.device("meta"):
            module = timm.create_model(
                recipe.architecture, pretrained_cfg=recipe.config, **_arguments(recipe, size)
            ).eval()
    except Exception as error:  # whatever a constructor does with settings of the wrong kind
        raise ModelError(
            Sentence(
                "model_not_built",
                "{name} cannot be built with these settings ({reason}); check the size and "
                "the configuration.",
                name=recipe.architecture,
                reason=str(error).split("\n")[0] or type(error).__name__,
            )
        ) from error
    adapter = adapt(module, size)
    if size is not None:
        require_whole_patches(size, adapter.patch)
    return module


def _arguments(recipe: Recipe, size: Size | None) -> dict[str, Any]:
    return {**recipe.arguments, **({"img_size": size} if size else {})}


def _no_draw(module: Any) -> dict[str, Any]:
    """Leave out the drawing of random weights, which costs more than reading the real ones."""
    from timm.models.vision_transformer import VisionTransformer

    return {"weight_init": "skip"} if isinstance(module, VisionTransformer) else {}


def _demand_patch(tensors: dict[str, Tensor], module: Any, recipe: Recipe) -> None:
    """Refuse patches of another size: timm would resample them, and the grid would be wrong."""
    stored = tensors.get("patch_embed.proj.weight")
    own = dict(module.named_parameters()).get("patch_embed.proj.weight")
    if stored is None or own is None or stored.ndim != 4:
        return
    if stored.shape[-2:] != own.shape[-2:]:
        raise ModelError(
            Sentence(
                "weights_patch",
                "The weights are for patches of {stored} pixels and {name} has patches of {own}; "
                "name the right architecture.",
                stored="×".join(map(str, stored.shape[-2:])),
                own="×".join(map(str, own.shape[-2:])),
                name=recipe.architecture,
            )
        )


def _unfit(
    recipe: Recipe, weights: Path | dict[str, Tensor], module: Any, error: Exception
) -> ModelError:
    tensors = read_tensors(weights) if isinstance(weights, Path) else weights
    return ModelError(
        Sentence(
            "weights_unfit",
            "The weights do not fit {name}: {differences}.",
            name=recipe.architecture,
            differences=differences(tensors, module) or str(error).split("\n")[0],
        )
    )
