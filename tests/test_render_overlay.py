"""Maps drawn over the photo: in the right place, and hatched where nothing was seen."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from explainers.heatmap import HeatMap
from explainers.image import Geometry, Photo
from explainers.render.colours import UNSIGNED, colour_table
from explainers.render.cv import DrawingError, opencv
from explainers.render.describe import alt_text
from explainers.render.hatch import hatch
from explainers.render.overlay import CONTOURS, STYLES, overlay
from explainers.sentence import Sentence
from tests.heat_maps import GRID, brightness, centre_crop, heat_map, hot, random_photo, whole


def unseen(heat: HeatMap) -> np.ndarray:
    """The photo's pixels whose centre lies in no cell, asked one by one."""
    geometry = heat.geometry
    return np.array(
        [
            [geometry.cell_at(x + 0.5, y + 0.5) is None for x in range(heat.photo.width)]
            for y in range(heat.photo.height)
        ]
    )


@pytest.mark.parametrize("shape", [(60, 90), (90, 60), (64, 64), (40, 200), (7, 5)])
@pytest.mark.parametrize("make", [centre_crop, whole])
@pytest.mark.parametrize("cell", [(0, 0), (3, 4), (1, 3)])
def test_a_hot_cell_lands_on_its_pixels(
    shape: tuple[int, int], make: Any, cell: tuple[int, int]
) -> None:
    photo = random_photo(*shape)
    heat = heat_map(hot(*cell), photo=photo, geometry=make(photo))
    drawn = np.asarray(overlay(heat, style="map"))
    colour = colour_table("viridis")[-1]
    left, top, right, bottom = heat.geometry.cell_box(*cell)
    for y in range(photo.height):
        for x in range(photo.width):
            inside = left <= x + 0.5 < right and top <= y + 0.5 < bottom
            assert (drawn[y, x] == colour).all() == inside


def test_the_hot_spot_is_at_the_same_place_at_any_width() -> None:
    photo = random_photo(60, 90)
    heat = heat_map(hot(1, 3), photo=photo)
    left, top, right, bottom = heat.geometry.cell_box(1, 3)
    for width in (45, 90, 333):
        drawn = np.asarray(overlay(heat, style="map", width=width))
        assert drawn.shape == (round(60 * width / 90), width, 3)
        y, x = np.nonzero((drawn == colour_table("viridis")[-1]).all(axis=-1))
        zoom = width / 90
        assert (x.mean() + 0.5) / zoom == pytest.approx((left + right) / 2, abs=0.5 / zoom)
        assert (y.mean() + 0.5) / zoom == pytest.approx((top + bottom) / 2, abs=0.5 / zoom)


def test_smooth_has_its_centroid_at_the_cell() -> None:
    photo = random_photo(200, 300)
    heat = heat_map(hot(1, 3), photo=photo, geometry=whole(photo))
    drawn = np.asarray(overlay(heat, style="map", smooth=True, colours="cividis")).astype(float)
    weight = brightness(drawn) - brightness(colour_table("cividis"))[0]
    y, x = np.mgrid[0:200, 0:300] + 0.5
    left, top, right, bottom = heat.geometry.cell_box(1, 3)
    assert (weight * x).sum() / weight.sum() == pytest.approx((left + right) / 2, abs=0.5)
    assert (weight * y).sum() / weight.sum() == pytest.approx((top + bottom) / 2, abs=0.5)


def test_alpha_runs_from_the_photo_to_the_colours() -> None:
    heat = heat_map(np.random.default_rng(0).random(GRID), geometry=whole(random_photo()))
    photo, colours = heat.photo.pixels, np.asarray(overlay(heat, style="map"))
    assert (np.asarray(overlay(heat, alpha=0)) == photo).all()
    assert (np.asarray(overlay(heat, alpha=1)) == colours).all()
    blend = 0.3 * photo.astype(float) + 0.7 * colours
    assert np.abs(np.asarray(overlay(heat, alpha=0.7)) - blend).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("grey", [0, 40, 128, 255])
def test_hatching_is_exactly_where_the_model_saw_nothing(style: str, grey: int) -> None:
    photo = Photo(np.full((60, 90, 3), grey, np.uint8))
    heat = heat_map(np.zeros(GRID), photo=photo, geometry=centre_crop(photo))
    drawn = np.asarray(overlay(heat, style=style))
    hidden = unseen(heat)
    assert 0.1 < hidden.mean() < 0.9
    seen = colour_table("viridis")[0]
    if style == "overlay":
        seen = np.rint(0.45 * grey + 0.55 * seen.astype(float))
    if style == "contour":
        seen = np.full(3, grey)
    assert np.abs(drawn[~hidden] - seen.astype(float)).max() <= 1
    tones = np.unique(drawn[hidden], axis=0)
    assert tones.tolist() == [[int(0.4 * grey)] * 3, [190] * 3]
    lines = (drawn[hidden] == 190).all(axis=-1).mean()
    assert 0.1 < lines < 0.35


def test_what_is_seen_whole_is_not_hatched() -> None:
    picture = np.zeros((4, 4, 3), np.uint8)
    assert hatch(picture, picture, np.zeros((4, 4), bool)) is picture


def test_border_padding_draws_only_what_lies_on_the_photo() -> None:
    photo = random_photo(40, 60)
    geometry = Geometry((40, 60), (32, 48), (-8, -8), (48, 64), (8, 8))
    heat = heat_map(np.ones((6, 8)), photo=photo, geometry=geometry)
    assert not unseen(heat).any()
    assert (np.asarray(overlay(heat, style="map")) == colour_table("viridis")[-1]).all()


def test_pixel_maps_and_colour_maps_are_drawn() -> None:
    photo = random_photo()
    pixels = np.random.default_rng(0).normal(size=(32, 40))
    for style in STYLES:
        drawn = overlay(heat_map(pixels, signed=True, kind="pixels"), style=style)
        assert drawn.size == (90, 60)
    rgb = np.zeros((*GRID, 3))
    rgb[1, 2] = (-2, 0, 1)
    heat = heat_map(rgb, signed=True, kind="rgb", photo=photo, geometry=whole(photo))
    drawn = np.asarray(overlay(heat, style="map"))
    left, top, right, bottom = heat.geometry.cell_box(1, 2)
    assert drawn[int(top + bottom) // 2, int(left + right) // 2].tolist() == [0, 127, 255]
    with pytest.raises(ValueError, match="no level lines"):
        overlay(heat, style="contour")


def test_contours_surround_what_lies_above_their_levels() -> None:
    photo = Photo(np.full((400, 500, 3), 128, np.uint8))
    ramp = np.tile(np.linspace(0, 1, 11)[:10], (4, 1))  # columns 0, 0.1, … 0.9
    heat = heat_map(ramp, photo=photo, geometry=whole(photo, (4, 10)))
    drawn = np.asarray(overlay(heat, style="contour", limit=1.0))
    changed = (drawn != 128).any(axis=(0, 2))
    for part in CONTOURS:
        edge = round(part * 10) * 50  # where the first column at or above the level begins
        assert changed[edge - 3 : edge + 3].any()
    assert not changed[:245].any()
    assert (drawn[:, 250:270] == colour_table("viridis")[127]).all(axis=-1).any()


def test_signed_contours_have_both_colours() -> None:
    photo = Photo(np.full((200, 250, 3), 128, np.uint8))
    heat = heat_map(hot(0, 0) - hot(3, 4), signed=True, photo=photo, geometry=whole(photo))
    drawn = np.asarray(overlay(heat, style="contour")).astype(int)
    red = (drawn[..., 0] > drawn[..., 2] + 60).nonzero()
    blue = (drawn[..., 2] > drawn[..., 0] + 60).nonzero()
    assert max(red[0]) < 60
    assert max(red[1]) < 60
    assert min(blue[0]) > 140
    assert min(blue[1]) > 190


@pytest.mark.parametrize("grey", [0, 255])
@pytest.mark.parametrize("colours", UNSIGNED)
def test_contours_are_seen_on_black_and_on_white(grey: int, colours: str) -> None:
    photo = Photo(np.full((200, 250, 3), grey, np.uint8))
    for level in (0.55, 0.75, 0.95):
        heat = heat_map(level * hot(1, 2), photo=photo, geometry=whole(photo))
        drawn = np.asarray(overlay(heat, style="contour", limit=1.0, colours=colours))
        assert np.abs(brightness(drawn) - grey).max() > 90


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"style": "heat"}, "overlay, map, contour"),
        ({"alpha": 1.5}, "between 0 and 1"),
        ({"alpha": float("nan")}, "between 0 and 1"),
        ({"alpha": "0.5"}, "between 0 and 1"),
        ({"width": 0}, "from 1 to 17320"),
        ({"width": 10**9}, "from 1 to 17320"),
        ({"width": 90.0}, "whole number"),
        ({"width": "wide"}, "whole number"),
        ({"scale": "log"}, "zero, minmax, percentile"),
        ({"scale": "minmax", "limit": 1.0}, "exclude each other"),
        ({"colours": "jet"}, "viridis"),
    ],
)
def test_options_out_of_range_are_refused_in_a_sentence(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        overlay(heat_map(hot(0, 0)), **options)
    assert isinstance(caught.value.args[0], Sentence)


def test_drawing_changes_neither_the_map_nor_the_photo() -> None:
    heat = heat_map(np.random.default_rng(0).random(GRID))
    before = heat.values.tobytes(), heat.photo.pixels.tobytes()
    for style in STYLES:
        overlay(heat, style=style, smooth=True, scale="minmax")
    alt_text(heat)
    assert before == (heat.values.tobytes(), heat.photo.pixels.tobytes())


def test_half_and_double_precision_are_drawn_alike() -> None:
    heat = heat_map(hot(1, 2))
    expected = np.asarray(overlay(heat))
    double = replace(heat, values=heat.values.astype(np.float64))
    assert (np.asarray(overlay(double)) == expected).all()


def test_twelve_megapixels_are_drawn_whole_or_to_a_width() -> None:
    photo = random_photo(3000, 4000)
    heat = heat_map(np.random.default_rng(0).random((14, 14)), photo=photo)
    heat = replace(heat, geometry=centre_crop(photo, (14, 14)))
    assert overlay(heat, width=1200).size == (1200, 900)
    assert overlay(heat).size == (4000, 3000)


def test_a_missing_libgl_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)  # import cv2 raises ImportError
    with pytest.raises(DrawingError, match=r"libgl1 libglib2\.0-0.*opencv-python-headless"):
        opencv()
