"""Pictures of heat maps: in the right place, honest about zero, flatness and what was unseen."""

from __future__ import annotations

import io
import json
import re
import sys
import time
import xml.dom.minidom
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image

from explainers.heatmap import HeatMap, Kind, Target
from explainers.image import Geometry, Photo
from explainers.render.colours import LEVELS, SIGNED, UNSIGNED, check_colours, colour_table
from explainers.render.cv import DrawingError, opencv
from explainers.render.describe import alt_text, strongest_part
from explainers.render.export import SUFFIXES, SaveError, png_bytes, read_npz, save, save_all
from explainers.render.figure import heat_figure, to_image
from explainers.render.hatch import hatch
from explainers.render.legend import colour_bar, number, text_font
from explainers.render.overlay import CONTOURS, STYLES, overlay
from explainers.render.scale import make_scale, shared_limit
from explainers.render.sheet import contact_sheet, wrapped
from explainers.sentence import Sentence

GRID = (4, 5)
PATCH = 8


def random_photo(height: int = 60, width: int = 90, seed: int = 0) -> Photo:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Photo(pixels, "noise.png")


def centre_crop(photo: Photo, grid: tuple[int, int] = GRID) -> Geometry:
    """A window of grid · 8 pixels in the middle of the photo resized to 5/4 of its sides."""
    size = (grid[0] * PATCH, grid[1] * PATCH)
    scale = 1.25 * max(size[0] / photo.height, size[1] / photo.width)
    resized = (round(photo.height * scale), round(photo.width * scale))
    offset = ((resized[0] - size[0]) // 2, (resized[1] - size[1]) // 2)
    return Geometry((photo.height, photo.width), resized, offset, size, (PATCH, PATCH))


def whole(photo: Photo, grid: tuple[int, int] = GRID) -> Geometry:
    """The whole photo squashed into the model's input."""
    size = (grid[0] * PATCH, grid[1] * PATCH)
    return Geometry((photo.height, photo.width), size, (0, 0), size, (PATCH, PATCH))


def heat_map(
    values: np.ndarray,
    signed: bool = False,
    kind: Kind = "grid",
    photo: Photo | None = None,
    geometry: Geometry | None = None,
    **changes: Any,
) -> HeatMap:
    photo = photo or random_photo()
    heat = HeatMap(
        values=np.asarray(values, dtype=np.float32),
        kind=kind,
        signed=signed,
        method="rollout",
        title="Rollout",
        meaning="where it looked",
        photo=photo,
        geometry=geometry or centre_crop(photo),
        target=Target(1, "tabby, tabby cat", 0.7),
        against=None,
        parameters={"start": 0},
        prefix_share=0.04,
        figures={"error": 0.5},
        notes=(Sentence("a_note", "A note."),),
        provenance={"model": "tiny – é", "photo": photo.sha256, "seed": np.int64(3)},
    )
    return replace(heat, **changes)


def hot(row: int, column: int, grid: tuple[int, int] = GRID) -> np.ndarray:
    values = np.zeros(grid)
    values[row, column] = 1
    return values


def unseen(heat: HeatMap) -> np.ndarray:
    """The photo's pixels whose centre lies in no cell, asked one by one."""
    geometry = heat.geometry
    return np.array(
        [
            [geometry.cell_at(x + 0.5, y + 0.5) is None for x in range(heat.photo.width)]
            for y in range(heat.photo.height)
        ]
    )


# Colours and scale


def test_colour_tables_are_all_there_and_read_only() -> None:
    for name in (*UNSIGNED, *SIGNED):
        table = colour_table(name)
        assert table.shape == (LEVELS, 3)
        assert table.dtype == np.uint8
        assert len(np.unique(table, axis=0)) > 200
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0


def brightness(table: np.ndarray) -> np.ndarray:
    return table @ np.array([0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_colours_only_get_brighter(name: str) -> None:
    assert (np.diff(brightness(colour_table(name))) > -1).all()


@pytest.mark.parametrize("name", SIGNED)
def test_signed_colours_are_brightest_at_zero_and_fall_to_both_sides(name: str) -> None:
    light = brightness(colour_table(name))
    assert abs(int(light.argmax()) - LEVELS // 2) <= 2
    assert (np.diff(light[: LEVELS // 2 - 2]) > -1).all()
    assert (np.diff(light[LEVELS // 2 + 2 :]) < 1).all()


def test_colours_fit_the_kind_of_map() -> None:
    assert check_colours(None, signed=False) == "viridis"
    assert check_colours(None, signed=True) == "RdBu_r"
    with pytest.raises(ValueError, match="viridis, cividis"):
        check_colours("RdBu_r", signed=False)
    with pytest.raises(ValueError, match="RdBu_r, PuOr_r"):
        check_colours("viridis", signed=True)


def test_unsigned_levels_run_from_zero_to_the_maximum() -> None:
    heat = heat_map([[0.5, 1.0], [0.75, 0.25]])
    assert make_scale(heat).levels(heat.values).tolist() == [[127, 254], [190, 64]]


def test_signed_levels_are_symmetric_about_the_middle() -> None:
    values = np.random.default_rng(0).normal(size=(6, 7))
    heat, mirror = heat_map(values, signed=True), heat_map(-values, signed=True)
    levels = make_scale(heat).levels(heat.values).astype(int)
    mirrored = make_scale(mirror).levels(mirror.values).astype(int)
    assert (levels + mirrored == LEVELS - 1).all()
    assert make_scale(heat).levels(np.zeros(1)) == LEVELS // 2


def test_a_limit_is_shared_and_clips() -> None:
    weak, strong = heat_map([[0.5, 0.0]]), heat_map([[2.0, 4.0]])
    limit = shared_limit([weak, strong])
    assert limit == 4
    assert make_scale(weak, limit).levels(weak.values)[0, 0] == round(0.125 * 254)
    assert make_scale(strong, 1.0).levels(strong.values).tolist() == [[254, 254]]
    assert shared_limit([]) is None
    assert shared_limit([heat_map([[0.0, 0.0]])]) is None


def test_other_ranges_are_labelled() -> None:
    heat = heat_map(np.linspace(5, 6, 200).reshape(10, 20))
    assert make_scale(heat).note is None
    stretched = make_scale(heat, scale="minmax")
    assert (stretched.low, stretched.high) == (5, 6)
    assert stretched.note is not None
    assert stretched.note.key == "scale_minmax"
    clipped = make_scale(heat, scale="percentile")
    assert clipped.low == 0
    assert clipped.high == pytest.approx(5.99, abs=1e-6)
    assert clipped.note is not None
    signed = make_scale(heat_map([[1.0, 3.0]], signed=True), scale="minmax")
    assert (signed.low, signed.high) == (-3, 3)


@pytest.mark.parametrize("scale", ["zero", "minmax", "percentile"])
@pytest.mark.parametrize("signed", [False, True])
def test_a_flat_map_stays_flat(scale: str, signed: bool) -> None:
    values = 0.3 + 1e-8 * np.random.default_rng(0).normal(size=GRID)
    heat = heat_map(values, signed=signed, geometry=whole(random_photo()))
    assert heat.flat
    levels = make_scale(heat, scale=scale).levels(heat.values)
    assert len(np.unique(levels)) == 1
    drawn = np.asarray(overlay(heat, style="map", scale=scale))
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) == 1
    bare = np.asarray(overlay(heat, style="contour", scale=scale))
    assert (bare == heat.photo.pixels).all()


@pytest.mark.parametrize("signed", [False, True])
def test_an_all_zero_map_lies_at_zero(signed: bool) -> None:
    heat = heat_map(np.zeros(GRID), signed=signed, geometry=whole(random_photo()))
    colour = colour_table(check_colours(None, signed))[LEVELS // 2 if signed else 0]
    for style in STYLES:
        assert overlay(heat, style=style).size == (90, 60)
    assert (np.asarray(overlay(heat, style="map")) == colour).all()


@pytest.mark.parametrize("value", [1e-30, 1e-12, 1e12, 1e30])
def test_tiny_and_huge_values_draw_like_any_other(value: float) -> None:
    expected = np.asarray(overlay(heat_map(hot(1, 2))))
    assert (np.asarray(overlay(heat_map(hot(1, 2) * value))) == expected).all()


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf"), "2"])
def test_a_bad_limit_is_refused(limit: Any) -> None:
    with pytest.raises(ValueError, match="above 0"):
        overlay(heat_map(hot(0, 0)), limit=limit)


# Overlay


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


# Words


def test_the_colour_bar_shows_the_ends() -> None:
    bar = np.asarray(colour_bar(heat_map(hot(0, 0)), width=200))
    assert bar.shape[1] == 200
    assert (bar[10, 11] == colour_table("viridis")[0]).all()
    assert (bar[10, 200 - 11 - 1] == colour_table("viridis")[-1]).all()
    signed = colour_bar(heat_map(hot(0, 0) - hot(1, 1), signed=True))
    assert signed.width == 320
    rgb = heat_map(np.random.default_rng(0).normal(size=(*GRID, 3)), signed=True, kind="rgb")
    assert colour_bar(rgb).height > 2 * signed.height
    assert colour_bar(heat_map(np.zeros(GRID))).width == 320


def test_numbers_are_short_and_have_a_true_minus() -> None:
    assert number(-1.23456) == "−1.23"
    assert number(-0.0) == "0"
    assert number(0.000012345) == "1.23e−05"
    assert text_font(12).getmask("−").getbbox() is not None


@pytest.mark.parametrize(
    ("cell", "region"),
    [((0, 0), "upper left"), ((1, 1), "centre"), ((2, 2), "lower right"), ((0, 1), "top")],
)
def test_alt_text_names_the_strongest_region(cell: tuple[int, int], region: str) -> None:
    photo = random_photo(90, 120)
    values = np.full((3, 3), 0.1)
    values[cell] = 0.8
    heat = heat_map(values, photo=photo, geometry=whole(photo, (3, 3)))
    text = alt_text(heat)
    assert text == (
        f"Rollout: strongest at the {region}, 50 % of the total in 11 % of the photo; "
        "4 % on tokens that are no part of the photo."
    )
    assert text.key == "alt_strongest"
    assert isinstance(text.values["region"], Sentence)
    assert isinstance(text.values["prefix"], Sentence)


def test_shares_count_the_area_of_the_photo() -> None:
    photo = random_photo(90, 90)
    values = np.ones((2, 2))
    heat = heat_map(values, photo=photo, geometry=whole(photo, (2, 2)))
    part = strongest_part(heat)
    assert part is not None
    assert part.share == part.even == pytest.approx(1 / 9)


def test_alt_text_of_an_even_map_names_no_part() -> None:
    photo = random_photo(90, 120)
    values = np.linspace(1, 1.15, 9).reshape(3, 3)
    text = alt_text(heat_map(values, photo=photo, geometry=whole(photo, (3, 3))))
    assert text.key == "alt_even"
    assert text.startswith("Rollout: spread about evenly, no part of the photo stands out; 4 %")


def test_alt_text_of_other_maps() -> None:
    signed = alt_text(heat_map(hot(0, 0) - hot(3, 4), signed=True))
    assert signed.key == "alt_signed"
    assert "at the upper left (100 %" in signed
    assert "at the lower right (100 %" in signed
    assert "% of the photo was not seen" in signed
    assert alt_text(heat_map(-hot(0, 0), signed=True)).key == "alt_against"
    assert alt_text(heat_map(np.full(GRID, 0.2))).key == "alt_flat"
    assert alt_text(heat_map(np.zeros(GRID))).key == "alt_flat"
    rgb = heat_map(np.random.default_rng(0).normal(size=(*GRID, 3)), signed=True, kind="rgb")
    assert alt_text(rgb).key == "alt_rgb"
    without = alt_text(heat_map(hot(0, 0), prefix_share=None))
    assert "tokens" not in without
    outside = Geometry((40, 60), (32, 48), (-8, -8), (48, 64), (8, 8))
    border = heat_map(hot(0, 0, (6, 8)), photo=random_photo(40, 60), geometry=outside)
    assert alt_text(border).key == "alt_nothing"


# Files


def test_npz_is_the_same_bytes_twice_and_reads_back(tmp_path: Path) -> None:
    heat = heat_map(np.random.default_rng(0).random(GRID))
    first = save(heat, tmp_path / "one.npz").read_bytes()
    time.sleep(2.1)  # a zip file's dates count in two seconds
    second = save(heat, tmp_path / "two.npz").read_bytes()
    assert first == second
    contents = read_npz(tmp_path / "one.npz")
    assert contents["values"].dtype == heat.values.dtype
    assert (contents["values"] == heat.values).all()
    assert contents["provenance"] == {
        "model": "tiny – é",
        "photo": heat.photo.sha256,
        "seed": 3,
    }
    about = contents["about"]
    assert about["target"] == {"index": 1, "label": "tabby, tabby cat", "probability": 0.7}
    assert about["notes"] == ["A note."]
    assert about["prefix_share"] == 0.04
    with np.load(tmp_path / "one.npz", allow_pickle=False) as plain:
        assert sorted(plain.files) == ["about", "provenance", "values"]


def test_all_maps_go_into_one_npz(tmp_path: Path) -> None:
    first, second = heat_map(hot(0, 0)), heat_map(hot(1, 1))
    other = heat_map(hot(2, 2), method="saliency")
    path = save_all([first, other, second], tmp_path / "all.npz")
    contents = read_npz(path)
    assert (contents["rollout"] == first.values).all()
    assert (contents["saliency"] == other.values).all()
    assert (contents["rollout_2"] == second.values).all()
    assert set(contents["provenance"]) == {"rollout", "rollout_2", "saliency"}
    assert contents["about"]["saliency"]["method"] == "saliency"
    alone = read_npz(save_all([first], tmp_path / "single.npz"))
    assert (alone["rollout"] == first.values).all()


def test_other_files_are_no_maps(tmp_path: Path) -> None:
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"no zip file")
    foreign = tmp_path / "foreign.npz"
    np.savez(foreign, values=np.zeros(3))
    for path in (broken, foreign):
        with pytest.raises(ValueError, match=f"{path.name} is not a file of maps"):
            read_npz(path)


def test_png_carries_provenance_and_the_same_pixels(tmp_path: Path) -> None:
    heat = heat_map(np.random.default_rng(0).random(GRID))
    path = save(heat, tmp_path / "map.PNG", alpha=0.4, style="overlay")
    with Image.open(path) as image:
        texts = image.text
        assert (np.asarray(image) == np.asarray(overlay(heat, alpha=0.4))).all()
    assert json.loads(texts["provenance"])["model"] == "tiny – é"
    assert json.loads(texts["about"])["title"] == "Rollout"
    assert png_bytes(heat) == png_bytes(heat)


def test_a_saved_png_can_carry_its_title_and_colour_bar() -> None:
    heat = heat_map(np.random.default_rng(0).random(GRID))
    options = {"alpha": 0.4, "limit": 2.0}
    with Image.open(io.BytesIO(png_bytes(heat, legend=True, **options))) as image:
        whole = np.asarray(image)
    picture = np.asarray(overlay(heat, **options))
    bar = np.asarray(colour_bar(heat, limit=2.0, width=picture.shape[1]))
    head = len(whole) - len(picture) - len(bar)
    assert head > 0
    assert (whole[:head] < 128).any()  # the title
    assert (whole[head : head + len(picture)] == picture).all()
    assert (whole[head + len(picture) :] == bar).all()


@pytest.mark.parametrize("suffix", [".pdf", ".svg", ".tiff"])
def test_figures_keep_text_and_carry_no_date(tmp_path: Path, suffix: str) -> None:
    heat = heat_map(np.random.default_rng(0).normal(size=GRID), signed=True)
    settings = dict(matplotlib.rcParams)
    first = save(heat, tmp_path / f"one{suffix}").read_bytes()
    second = save(heat, tmp_path / f"two{suffix}").read_bytes()
    assert first == second or suffix == ".tiff"  # libtiff leaves a padding byte to chance
    assert dict(matplotlib.rcParams) == settings
    if suffix == ".svg":
        document = xml.dom.minidom.parseString(first)
        words = [node.firstChild.data for node in document.getElementsByTagName("text")]
        assert "Rollout: tabby, tabby cat" in words
        assert not document.getElementsByTagName("dc:date")
        description = document.getElementsByTagName("dc:description")[0].firstChild.data
        assert json.loads(description)["provenance"]["seed"] == 3
    if suffix == ".pdf":
        assert first.startswith(b"%PDF")
        assert b"CreationDate" not in first
        assert b"/FontFile2" in first  # TrueType, so the text can be searched and edited
        assert heat.photo.sha256.encode() in first
    if suffix == ".tiff":
        with Image.open(io.BytesIO(first)) as image:
            description = image.tag_v2[270]
            assert image.width == 2100
            assert (np.asarray(image) == np.asarray(Image.open(io.BytesIO(second)))).all()
        assert json.loads(description)["about"]["method"] == "rollout"


def test_every_style_and_kind_can_be_a_figure(tmp_path: Path) -> None:
    rgb = heat_map(np.random.default_rng(0).normal(size=(*GRID, 3)), signed=True, kind="rgb")
    save(rgb, tmp_path / "rgb.pdf")
    save(heat_map(np.zeros(GRID)), tmp_path / "zero.svg", scale="minmax")
    save(heat_map(hot(0, 0)), tmp_path / "lines.svg", style="contour", width=200)


def test_a_dollar_in_a_name_is_no_formula(tmp_path: Path) -> None:
    photo = Photo(random_photo().pixels, "$x^$_a.png")
    heat = heat_map(hot(0, 0), photo=photo, target=Target(0, "a $ b $ {c", 0.5))
    assert b"$x^$_a.png" in save(heat, tmp_path / "map.svg").read_bytes()


def test_an_unknown_suffix_and_useless_options_are_refused(tmp_path: Path) -> None:
    heat = heat_map(hot(0, 0))
    with pytest.raises(ValueError, match=", ".join(SUFFIXES)):
        save(heat, tmp_path / "map.jpg")
    with pytest.raises(ValueError, match="alpha"):
        save(heat, tmp_path / "map.npz", alpha=0.5)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heat = heat_map(hot(0, 0))
    path = save(heat, tmp_path / "map.npz")
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("explainers.render.export.os.replace", full)
    with pytest.raises(OSError, match="no space"):
        save(heat_map(hot(1, 1)), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_figures_drawn_in_threads_are_the_serial_ones(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    heats = [heat_map(random.random(GRID), photo=random_photo(seed=i)) for i in range(6)]

    def draw(index: int) -> bytes:
        figure = heat_figure(heats[index], width=90)
        svg = save(heats[index], tmp_path / f"{index}.svg", width=90).read_bytes()
        return to_image(figure).tobytes() + svg + png_bytes(heats[index], style="contour")

    serial = [draw(index) for index in range(6)]
    with ThreadPoolExecutor(6) as pool:
        parallel = list(pool.map(draw, [*range(6)] * 2))
    assert parallel == serial * 2
    assert len(set(serial)) == 6


def test_pyplot_is_never_used(root: Path) -> None:
    """Its current figure belongs to the whole process: another thread may draw into it."""
    for path in (root / "explainers").rglob("*.py"):
        assert not re.search(r"import.*pyplot|pyplot\.", path.read_text(encoding="utf-8")), path


def test_contact_sheet_holds_photos_maps_and_pictures() -> None:
    photo = random_photo(60, 90)
    heat = heat_map(hot(1, 2), photo=photo)
    items = [(photo, "photo"), (heat, "map"), (overlay(heat), "ready"), (heat, "a " * 60)]
    sheet = contact_sheet(items, columns=3, tile=120, title="Title", bars=True)
    assert sheet.width == 14 + 3 * (120 + 14)
    drawn = np.asarray(sheet)
    tile = np.asarray(overlay(heat, width=120))
    windows = np.lib.stride_tricks.sliding_window_view(drawn[..., 0], tile.shape[:2])
    column = windows[:, 14 + 134]  # where the second tile begins
    assert (column == tile[..., 0]).all(axis=(1, 2)).sum() == 1  # pixel for pixel, once
    with pytest.raises(ValueError, match="at least one picture"):
        contact_sheet([])


def test_captions_are_broken_to_fit() -> None:
    font = text_font(13)
    lines = wrapped("the quick brown fox " + "x" * 80 + "\nnew line", font, 100)
    assert all(font.getlength(line) <= 100 for line in lines)
    assert "".join(lines).replace(" ", "") == "thequickbrownfox" + "x" * 80 + "newline"
    assert lines[-1] == "new line"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    for name, reason in (
        ("nowhere/map.png", "No such file"),
        ("folder.png", "directory"),
        ("null\0.png", "null byte"),
        ("long" * 100 + ".npz", "too long"),
    ):
        with pytest.raises(SaveError, match=reason) as caught:
            save(heat_map(hot(0, 0)), tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name} cannot be written")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_a_figure_of_a_narrow_photo_is_drawn(tmp_path: Path) -> None:
    photo = Photo(np.zeros((3000, 1, 3), np.uint8))
    heat = heat_map(hot(0, 0), photo=photo, geometry=whole(photo))
    assert save(heat, tmp_path / "narrow.svg").stat().st_size > 1000
