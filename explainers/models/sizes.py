"""The same model at another input size: its weights shared, its positions resampled in 2D.

The model given is never changed. A copy of its modules is made whose parameters are the very
tensors of the original; only what depends on the grid (position embeddings, a relative bias) is
its own. A module in which nothing has to be resampled is tried at the size as it is. At the size
the model has already, the model itself is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.families import adapt
from explainers.models.positions import resample_table
from explainers.models.preprocessing import pixel_size, require_whole_patches
from explainers.models.sharing import sharing
from explainers.models.vit import ConciseVisionTransformer, VisionTransformer
from explainers.scalars import shown, whole_number
from explainers.sentence import Sentence

if TYPE_CHECKING:
    from explainers.models.adapters import Adapter
    from explainers.models.vision_model import VisionModel

Size = tuple[int, int]

_LONGEST = 160  # letters of a module's own words


def whole_size(photo: Photo, patch: Size, long_side: int | None = None) -> Size:
    """(height, width) in pixels at which a whole photo is looked at, nothing cut off.

    long_side: pixels of the longer side, None for the photo's own. The aspect is kept and both
    sides are rounded down to whole patches, of which there is at least one.
    """
    longest = max(photo.height, photo.width)
    wanted = longest if long_side is None else whole_number(long_side)
    if wanted is None or wanted < max(patch):
        raise ModelError(
            Sentence(
                "long_side_number",
                "The long side is a whole number of pixels, at least one patch ({patch}); "
                "got {given}.",
                patch=max(patch),
                given=shown(long_side),
            )
        )
    return scaled_size((photo.height, photo.width), patch, wanted)


def scaled_size(size: Sequence[int], patch: Sequence[int], long_side: int) -> Size:
    """A size (height, width) with another longer side, in whole patches of which there is one."""
    sides = (side * long_side // max(size) for side in size)
    height, width = (max(1, side // p) * p for side, p in zip(sides, patch, strict=True))
    return height, width


def at_size(vit: VisionModel, size: int | Size) -> VisionModel:
    """``vit`` at another input size (height, width) in pixels, with its own way of cropping.

    Positions are resampled from the grid that ``vit`` was loaded at, as timm does it. Raises
    ModelError for a size that is no whole number of patches, or that the module does not take.
    """
    vit = vit.native or vit
    wanted = pixel_size(size)
    if wanted == vit.preprocessing.size:
        return vit
    patch = vit.adapter.patch
    require_whole_patches(wanted, patch)
    module, adapter = _resized(vit, wanted)
    rows, columns = wanted[0] // patch[0], wanted[1] // patch[1]
    if adapter.grid(wanted) != (rows, columns):
        raise _refused(vit, wanted, "its map would have {}×{} cells".format(*adapter.grid(wanted)))
    return replace(
        vit,
        module=module,
        adapter=adapter,
        preprocessing=replace(vit.preprocessing, size=wanted),
        native=vit,
        # Layers of several grids are laid out anew, which the next trace checks.
        attention_check=vit.attention_check if adapter.one_grid_support() else None,
    )


def whole(vit: VisionModel, photo: Photo, long_side: int | None = None) -> VisionModel:
    """``vit`` as it looks at one photo as a whole; see `whole_size`.

    The photo is resized to exactly the model's input. Raises ModelError as `at_size`.
    """
    vit = vit.native or vit
    size = whole_size(photo, vit.adapter.patch, long_side)
    return uncut(at_size(vit, size), size)


def uncut(vit: VisionModel, size: Size | None = None) -> VisionModel:
    """``vit`` taking all of what it is given: resized to its input, with no margin cut off."""
    size = size or vit.preprocessing.size
    preprocessing = replace(vit.preprocessing, size=size, crop_mode="squash", crop_pct=1.0)
    return replace(vit, preprocessing=preprocessing, native=vit.native or vit)


def _resized(vit: VisionModel, size: Size) -> tuple[nn.Module, Adapter]:
    """The module at another size, sharing the original's weights, and what reads it there."""
    module: Any = vit.module
    if isinstance(module, VisionTransformer):
        new = size[0] // module.cell, size[1] // module.cell
        own: Any = sharing(module)
        own.positions = module.positions.at_grid(module.grid_size, new)
        own.image_size, own.grid_size = size, new
        return own, adapt(own, size)
    if isinstance(module, ConciseVisionTransformer):
        p = module.patch_size
        old = module.image_size[0] // p, module.image_size[1] // p
        own = sharing(module)
        table = resample_table(module.pos_embed.detach(), old, (size[0] // p, size[1] // p))
        own.pos_embed = nn.Parameter(table, requires_grad=module.pos_embed.requires_grad)
        own.image_size = size
        return own, adapt(own, size)
    if vit.adapter.any_size:
        return module, adapt(module, size)
    if not hasattr(module, "set_input_size") or _has_windows(module):
        return module, _as_it_is(vit, size)
    own = sharing(module)
    try:
        with torch.no_grad():
            own.set_input_size(img_size=size)
    except Exception as error:  # whatever a family's own code does with a size it cannot take
        raise _fixed(vit, _words(error)) from error
    own.train(module.training)
    return own, adapt(own, size)


def _as_it_is(vit: VisionModel, size: Size) -> Adapter:
    """What reads the module, unchanged, at another size, which it has to take itself."""
    if size in vit.sized:
        return vit.sized[size]
    try:
        vit.sized[size] = vit.adapter.at_size(size)
    except ModelError:
        raise
    except Exception as error:  # whatever an unknown program does with a size it cannot take
        height, width = vit.preprocessing.size
        try:
            vit.adapter.at_size((2 * height, 2 * width))
        except Exception:
            windows = "its attention works in windows that fit its own size"
            raise _fixed(vit, windows if _has_windows(vit.module) else _words(error)) from error
        raise _refused(vit, size, _words(error)) from error
    return vit.sized[size]


def _has_windows(module: nn.Module) -> bool:
    parts = module.modules()
    return any(hasattr(part, "shift_size") or hasattr(part, "partition_size") for part in parts)


def _words(error: Exception) -> str:
    return (str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__)[:_LONGEST]


def _refused(vit: VisionModel, size: Size, reason: str) -> ModelError:
    return ModelError(
        Sentence(
            "size_refused",
            "{name} does not take photos of {height}×{width} pixels ({reason}); choose another "
            "size, or look at the photo through windows of the model's own.",
            name=vit.name,
            height=size[0],
            width=size[1],
            reason=reason,
        )
    )


def _fixed(vit: VisionModel, reason: str) -> ModelError:
    height, width = vit.preprocessing.size
    return ModelError(
        Sentence(
            "size_fixed",
            "{name} takes photos of {height}×{width} pixels only ({reason}); look at the photo "
            "at the model's own size, or through windows of it.",
            name=vit.name,
            height=height,
            width=width,
            reason=reason,
        )
    )
