"""Words and numbers beside a map: colour bars, and texts for those who cannot see it."""

from __future__ import annotations

import numpy as np
import pytest

from explainers.image import Geometry
from explainers.render.colours import colour_table
from explainers.render.describe import alt_text, strongest_part
from explainers.render.legend import colour_bar, number, text_font
from explainers.sentence import Sentence
from tests.heat_maps import GRID, heat_map, hot, random_photo, whole


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
