"""The cost panel: its figures are the library's, in words, and odd sizes are refused in one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from app import cost_panel
from app.cost_words import advice, billions, size
from explainers.views.cost import Shape, cost
from explainers.views.timing import Timing, speed

BASE = Shape(patch=16, width=768, depth=12, heads=12, mlp_width=3072)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_worked_example_is_told(lang: str) -> None:
    shown = cost_panel.shown(lang, "vit", BASE, 224, 224, 16, True)
    assert shown[:4] == [224, 224, 16, "vit"]
    figures, chart, text, advice = shown[4:]
    assert "14 × 14 = 196" in figures
    assert "197" in figures
    assert "768" in figures
    assert chart["alt_text"] in text.replace("&#x27;", "'")
    assert chart["value"].width > 300
    assert len(re.findall("<li>", advice)) == 5
    assert "50" in advice  # tokens left with patches of 32
    assert cost_panel.shown(lang, "vit", BASE, 32, 32, 8, False)[4].count("= 16") == 1


def test_a_single_patch_leaves_no_advice_that_cannot_be_taken() -> None:
    told = advice("en", BASE, cost(BASE, 16, 16), 16, 16)
    assert len(re.findall("<li>", told)) == 2


def test_odd_sizes_are_refused_in_one_sentence() -> None:
    for height, width, patch in ((0, 224, 16), (224, None, 16), (8, 8, 16), (10**7, 10, 1)):
        with pytest.raises(ValueError, match="pixels"):
            cost_panel.shown("en", "vit", BASE, height, width, patch, False)  # type: ignore[arg-type]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_predicted_stands_beside_measured(lang: str) -> None:
    timings = [Timing(64, 0.01, True), Timing(128, 0.02, True), Timing(256, 0.2, False)]
    text, picture = cost_panel.measured(lang, BASE, timings)
    assert text.count("<tr>") == 4
    assert "20.0 ms" in text
    assert "256 px *" in text
    rate = speed(BASE, timings)
    assert f"{1000 * cost(BASE, 64, 64).operations / rate:.1f} ms" in text
    assert picture["visible"]


def test_reach_says_what_was_measured() -> None:
    plain, _ = cost_panel.reach("en", 12, 224, None)
    assert "25 after 12" in plain["alt_text"]
    assert "112 to see 224" in plain["alt_text"]
    distances = np.linspace(10, 100, 24).reshape(12, 2)
    seen, text = cost_panel.reach("en", 12, 224, distances)
    assert f"{distances[-1].mean():.0f}" in seen["alt_text"]
    assert text.startswith("<p>")


def test_units() -> None:
    assert [billions(v) for v in (5, 1500, 9.17e9, 2e12)] == ["5", "1.5 k", "9.17 G", "2 T"]
    assert [size(v) for v in (12, 2048, 5 * 2**20)] == ["12 B", "2 KiB", "5 MiB"]
