"""A bright square at a known pixel: the picture that is drawn has its centre of mass there.

The whole way is tested: a file with an EXIF orientation, the upright photo, the model's resize
and crop, a model that answers with the brightness it sees, occlusion of its patches, and the
colours of the overlay, read back as numbers. Five aspect ratios × eight orientations × three
crop modes, and the same for a look at the whole photo and through windows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import timm
import torch

from explainers import HeatMap, Photo, VisionModel, explain, load_photo, wrap_model
from explainers.models.preprocessing import CropMode, Preprocessing
from explainers.render.colours import SIGNED, colour_table
from explainers.separate_looks import SeparateLooks
from tests.photo_files import STORED, encoded, exif_with

MODES: tuple[CropMode, ...] = ("center", "squash", "border")
ASPECTS = [(120, 120), (100, 150), (150, 100), (90, 160), (160, 80)]
PATCH, SIDE = 8, 56

each_photo = pytest.mark.parametrize(
    ("shape", "orientation"), [(shape, o) for shape in ASPECTS for o in range(1, 9)]
)


@cache
def brightness(mode: CropMode = "center") -> VisionModel:
    """A ViT whose logit is the mean brightness of its input, from black (0) to white (1)."""
    module: Any = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=SIDE,
        patch_size=PATCH,
        embed_dim=8,
        depth=1,
        num_heads=2,
        num_classes=2,
        global_pool="avg",
        class_token=False,
        final_norm=False,
    )
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module.patch_embed.proj.weight[0] = 1 / (3 * PATCH * PATCH)
        module.head.weight[0, 0] = 1
    asked = Preprocessing((SIDE, SIDE), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), "bicubic", 0.9, mode)
    return wrap_model(module.eval(), asked, labels=("bright", "dark"))


def photo_with_square(shape: tuple[int, int], orientation: int) -> tuple[Photo, float, float]:
    """A black photo, stored turned as its EXIF entry says, and the square's centre when upright.

    The square lies off the middle, where every crop shows it.
    """
    short = min(shape)
    side, left, top = short // 7, shape[1] // 2 + short // 8, shape[0] // 2 - short // 4
    array = np.zeros((*shape, 3), np.uint8)
    array[top : top + side, left : left + side] = 255
    photo = load_photo(encoded(STORED[orientation](array), exif=exif_with(orientation)))
    return photo, left + side / 2, top + side / 2


def _code(colours: np.ndarray) -> np.ndarray:
    return colours.astype(np.int64) @ np.array([65536, 256, 1])


@cache
def levels() -> np.ndarray:
    """Each colour's level above zero, by its code; other colours and the negative half: 0."""
    table = colour_table(SIGNED[0])
    found, middle = np.zeros(1 << 24, np.uint8), len(table) // 2
    found[_code(table[middle + 1 :])] = np.arange(1, len(table) - middle)
    return found


def drawn_centre(heat: HeatMap, **options: Any) -> tuple[float, float]:
    """(x, y) of the centre of mass of what the overlay shows as positive, in photo pixels."""
    picture = np.asarray(heat.overlay(style="map", **options))
    weights = levels()[_code(picture)]
    y, x = np.mgrid[0 : picture.shape[0], 0 : picture.shape[1]] + 0.5
    scale = heat.photo.width / picture.shape[1]
    total = weights.sum()
    return float((x * weights).sum() / total) * scale, float((y * weights).sum() / total) * scale


def demand_centre(heat: HeatMap, x: float, y: float) -> None:
    """Drawn as cells, smoothly and smaller: within half a patch, along both sides."""
    left, top, right, bottom = heat.geometry.cell_box(0, 0)
    for options in ({}, {"smooth": True}, {"width": heat.photo.width // 2}):
        cx, cy = drawn_centre(heat, **options)
        assert abs(cx - x) <= (right - left) / 2
        assert abs(cy - y) <= (bottom - top) / 2


def occluded(vit: VisionModel, photo: Photo) -> HeatMap:
    asked: dict[str, Any] = {"target": "bright", "fill": "black", "score": "logit"}
    heat = explain("occlusion", vit.trace(photo), **asked)
    assert isinstance(heat, HeatMap)
    return heat


@pytest.mark.parametrize("mode", MODES)
@each_photo
def test_the_overlay_is_where_the_square_is(
    shape: tuple[int, int], orientation: int, mode: CropMode
) -> None:
    photo, x, y = photo_with_square(shape, orientation)
    assert (photo.height, photo.width) == shape
    heat = occluded(brightness(mode), photo)
    demand_centre(heat, x, y)
    # the twin: each cell's fall is the brightness it holds
    pixels = brightness(mode).prepare([photo])[0][0].mean(0).numpy()
    cells = pixels.reshape(7, PATCH, 7, PATCH).mean(axis=(1, 3)) / 49
    np.testing.assert_allclose(heat.values, cells, atol=1e-6)


@each_photo
def test_a_look_at_the_whole_photo_is_where_the_square_is(
    shape: tuple[int, int], orientation: int
) -> None:
    photo, x, y = photo_with_square(shape, orientation)
    demand_centre(occluded(brightness().whole(photo, 96), photo), x, y)


@pytest.mark.parametrize("shape", ASPECTS)
def test_windows_are_where_the_square_is(shape: tuple[int, int]) -> None:
    photo, x, y = photo_with_square(shape, 6)
    looks = SeparateLooks(brightness(), photo)
    asked: dict[str, Any] = {"target": "bright", "fill": "black", "score": "logit"}
    heat = looks.explain("occlusion", **asked)
    from dataclasses import replace

    demand_centre(replace(heat, windows=()), x, y)
