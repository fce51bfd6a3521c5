"""Preprocessing: a photo into a model's input, byte for byte as timm does it, and the way back.

timm prepares photos in three ways. *center*: the short side is resized, the middle is cut out.
*squash*: both sides are resized, the shape is lost. *border*: the long side is resized, and a
border of the mean colour fills the rest. Each way rounds differently; `Preprocessing.geometry`
follows the rounding, so that every cell of a map lies where the model saw it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from explainers.image import Geometry, Photo
from explainers.models.errors import ModelError
from explainers.scalars import shown, whole_number
from explainers.sentence import Sentence

CropMode = Literal["center", "squash", "border"]

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "random": Image.Resampling.BILINEAR,  # drawn while training; timm's fixed choice otherwise
}
_REACH = 3
"""The widest filter (Lanczos) reads this many pixels to each side, counted at the coarser size."""

_HELD = 1 << 26
"""Resized photos of more pixels than this (256 MB) are not made whole, only their seen part."""


def require_whole_patches(size: tuple[int, int], patch: tuple[int, int]) -> None:
    """ModelError unless a size (height, width) in pixels is whole patches (height, width)."""
    if size[0] % patch[0] or size[1] % patch[1]:
        raise ModelError(
            Sentence(
                "size_patches",
                "The size must be whole patches of {patch_height}×{patch_width} pixels; got "
                "{height}×{width}.",
                patch_height=patch[0],
                patch_width=patch[1],
                height=size[0],
                width=size[1],
            )
        )


@dataclass(frozen=True)
class Preprocessing:
    """How one model wants its photos.

    size: (height, width) of its input. mean, std: of the three colours, of values in 0..1.
    interpolation: nearest, box, bilinear, hamming, bicubic, lanczos or random (as bilinear).
    crop_pct: the part of the resized photo's side that is kept. crop_mode: see above.
    """

    size: tuple[int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: str = "bicubic"
    crop_pct: float = 0.875
    crop_mode: CropMode = "center"

    def __post_init__(self) -> None:
        for name in ("size", "mean", "std"):  # lists, as JSON gives them, would not compare equal
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _check("size", self.size, "two whole numbers above 0", _two_sizes(self.size))
        _check("mean", self.mean, "three finite numbers", _three(self.mean))
        _check("std", self.std, "three numbers above 0", _three(self.std) and min(self.std) > 0)
        known = self.interpolation in _FILTERS
        _check("interpolation", self.interpolation, "one of " + ", ".join(_FILTERS), known)
        _check("crop_pct", self.crop_pct, "a number above 0", 0 < self.crop_pct < math.inf)
        modes = ("center", "squash", "border")
        _check("crop_mode", self.crop_mode, "one of " + ", ".join(modes), self.crop_mode in modes)

    @classmethod
    def from_timm(
        cls, module: nn.Module, size: int | tuple[int, int] | None = None
    ) -> Preprocessing:
        """What a timm module's own configuration asks for.

        The input size is ``size`` where given, else the one the module was built with: its
        configuration still names the trained size.
        """
        # timm takes seconds to import: only when a model is at hand.
        from timm.data import resolve_model_data_config

        config: dict[str, Any] = resolve_model_data_config(module)
        if size is None:
            size = getattr(getattr(module, "patch_embed", None), "img_size", None)
        if size is None:
            size = tuple(config["input_size"][-2:])
        height, width = pixel_size(size)
        mode = config["crop_mode"]
        return cls(
            size=(height, width),
            mean=cast(Any, tuple(float(value) for value in config["mean"])),
            std=cast(Any, tuple(float(value) for value in config["std"])),
            interpolation=config["interpolation"],
            crop_pct=float(config["crop_pct"]),
            crop_mode=mode if mode in ("squash", "border") else "center",
        )

    def geometry(self, photo: Photo, patch: tuple[int, int]) -> Geometry:
        """Where each input pixel and each cell of ``patch`` input pixels lies on the photo."""
        resized = self._resized_size(photo.height, photo.width)
        return Geometry(
            photo_size=(photo.height, photo.width),
            resized_size=resized,
            offset=(_offset(resized[0], self.size[0]), _offset(resized[1], self.size[1])),
            input_size=self.size,
            patch=patch,
        )

    def __call__(self, photo: Photo) -> Tensor:
        """The model's input (3, h, w), float32, equal to timm's evaluation transform."""
        pixels = torch.from_numpy(self.window(photo)).permute(2, 0, 1).contiguous()
        scaled = pixels.to(torch.float32).div_(255)
        return scaled.sub_(_column(self.mean)).div_(_column(self.std))

    def undo(self, pixels: Tensor) -> np.ndarray:
        """The picture (h, w, 3) uint8 that an input (3, h, w) shows; out-of-range is cut off."""
        shown = pixels.detach().to("cpu", torch.float32) * _column(self.std) + _column(self.mean)
        levels = shown.mul(255).round().clamp(0, 255).to(torch.uint8)
        return levels.permute(1, 2, 0).contiguous().numpy()

    def window(self, photo: Photo) -> np.ndarray:
        """What the model gets of the photo, resized and cut, as a picture (h, w, 3) uint8."""
        geometry = self.geometry(photo, (1, 1))
        (h, w), (top, left), (height, width) = geometry.resized_size, geometry.offset, self.size
        # The part of the resized photo that lies in the window.
        box = max(left, 0), max(top, 0), min(left + width, w), min(top + height, h)
        image, method = photo.to_pil(), _FILTERS[self.interpolation]
        if h * w > _HELD:
            part = _resized_part(image, (w, h), box, method)
        else:
            part = image.resize((w, h), method).crop(box)
        if part.size == (width, height):
            return np.array(part)
        fill = tuple(round(255 * value) for value in self.mean) if self.crop_mode == "border" else 0
        framed = Image.new("RGB", (width, height), fill)
        framed.paste(part, (box[0] - left, box[1] - top))
        return np.array(framed)

    def _resized_size(self, height: int, width: int) -> tuple[int, int]:
        """(h, w) of the whole photo after timm's resize for this crop mode."""
        target_h, target_w = (math.floor(side / self.crop_pct) for side in self.size)
        if self.crop_mode == "squash":
            return target_h, target_w
        if self.crop_mode == "center" and target_h == target_w:
            # torchvision's Resize to a short side: the long side is rounded down
            long = int(target_h * max(height, width) / min(height, width))
            return (target_h, long) if height <= width else (long, target_w)
        ratios = height / target_h, width / target_w
        ratio = max(ratios) if self.crop_mode == "border" else min(ratios)
        # timm's ResizeKeepRatio rounds to nearest; a side of 0 pixels, its error, becomes 1
        return max(1, round(height / ratio)), max(1, round(width / ratio))


def pixel_size(size: Any) -> tuple[int, int]:
    """(height, width) of a model's input from one number of pixels or a pair of them."""
    one = whole_number(size)
    listed = isinstance(size, Iterable) and not isinstance(size, (str, bytes))
    sides = [one, one] if one is not None else list(map(whole_number, size)) if listed else []
    if len(sides) == 2 and all(side is not None and side > 0 for side in sides):
        return cast(tuple[int, int], tuple(sides))
    raise ModelError(
        Sentence(
            "size_numbers",
            "The size is a whole number of pixels above 0, or (height, width); got {size}.",
            size=shown(size),
        )
    )


def _offset(resized: int, wanted: int) -> int:
    """Where the centre crop starts; negative by the border added before the picture.

    The rounding is that of torchvision and timm: half to even for cuts, down for borders.
    """
    if wanted > resized:
        return -((wanted - resized) // 2)
    return round((resized - wanted) / 2.0)


def _resized_part(
    image: Image.Image,
    size: tuple[int, int],
    box: tuple[int, int, int, int],
    method: Image.Resampling,
) -> Image.Image:
    """``image.resize(size).crop(box)`` without making it whole, for a 1 × 5,000 photo.

    Equal but for single levels where the filter's weights round differently.
    """
    wide, high = image.width / size[0], image.height / size[1]  # photo pixels a resized pixel
    left, top, right, bottom = box[0] * wide, box[1] * high, box[2] * wide, box[3] * high
    across, down = _REACH * max(wide, 1.0) + 1, _REACH * max(high, 1.0) + 1
    start = max(0, math.floor(left - across)), max(0, math.floor(top - down))
    end = min(image.width, math.ceil(right + across)), min(image.height, math.ceil(bottom + down))
    part = image.crop((*start, *end))
    return part.resize(
        (box[2] - box[0], box[3] - box[1]),
        method,
        box=(
            left - start[0],
            top - start[1],
            min(right - start[0], part.width),
            min(bottom - start[1], part.height),
        ),
    )


def _column(values: tuple[float, float, float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None, None]


def _two_sizes(size: tuple[int, int]) -> bool:
    return len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size)


def _three(values: tuple[float, ...]) -> bool:
    return len(values) == 3 and all(map(math.isfinite, values))


def _check(name: str, value: object, expected: str, fits: bool) -> None:
    if not fits:
        raise ModelError(
            Sentence(
                "preprocessing_value",
                "The preprocessing's {name} must be {expected}, and {value} came; "
                "correct the model's configuration.",
                name=name,
                expected=expected,
                value=value,
            )
        )
