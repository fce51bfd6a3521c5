"""Colours of heat maps: tables, scales, and honesty about zero and flatness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explainers.render.colours import LEVELS, SIGNED, UNSIGNED, check_colours, colour_table
from explainers.render.overlay import STYLES, overlay
from explainers.render.scale import make_scale, shared_limit
from tests.heat_maps import GRID, brightness, heat_map, hot, random_photo, whole


def test_colour_tables_are_all_there_and_read_only() -> None:
    for name in (*UNSIGNED, *SIGNED):
        table = colour_table(name)
        assert table.shape == (LEVELS, 3)
        assert table.dtype == np.uint8
        assert len(np.unique(table, axis=0)) > 200
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0


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
