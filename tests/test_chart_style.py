"""Charts of the page: readable on light and dark, without paper, in the page's language."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from app.chart_words import chart_words
from app.texts import texts
from explainers.render import chart_style
from explainers.render.chart_style import INK, LINES, WORDS, chinese_font
from explainers.render.charts import filter_sheet, position_sheet
from explainers.render.cost_chart import cost_chart, reach_chart
from explainers.views.cost import Shape
from explainers.views.filters import FilterGrid
from tests.learned_views import wave


def luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance as WCAG 2 defines it; parts from 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def worst_contrast(colour: tuple[float, ...]) -> float:
    """The smaller of the contrasts with white and with black."""
    own = luminance(colour)
    return min(1.05 / (own + 0.05), (own + 0.05) / 0.05)


def test_ink_and_lines_can_be_read_on_white_and_on_black() -> None:
    assert worst_contrast(tuple(part / 255 for part in INK)) >= 4.5
    for line in LINES:
        assert worst_contrast(to_rgb(line)) >= 3


def charts(words: dict[str, str]) -> list[Image.Image]:
    distances = np.random.default_rng(0).uniform(20, 90, size=(12, 3))
    shape = Shape(patch=16, width=192, depth=12, heads=3, mlp_width=768)
    return [
        cost_chart(shape, 224, 224, words),
        reach_chart(12, 224, distances, words),
        position_sheet(wave(5, 7), words=words),
    ]


def test_charts_have_no_paper_and_other_words_change_them() -> None:
    english = charts(dict(WORDS))
    for picture in [*english, filter_sheet(FilterGrid(-np.ones((4, 4, 4, 3)), np.ones(4) / 4, 4))]:
        alpha = np.asarray(picture)[..., 3]
        assert picture.mode == "RGBA"
        assert alpha[0, 0] == 0
        assert alpha.max() == 255
        drawn = np.asarray(picture)[..., :3][alpha == 255]
        assert not (drawn == 255).all(-1).any()
    for one, other in zip(english, charts(dict.fromkeys(WORDS, "x")), strict=True):
        assert one.tobytes() != other.tobytes()


def test_words_follow_the_page_and_english_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chart_words("en") == WORDS
    monkeypatch.setattr(chart_style, "chinese_font", lambda: "Some Chinese Font")
    assert chart_words("zh-CN")["chart_pixels"] == texts("zh")["figures"]["chart_pixels"]
    monkeypatch.setattr(chart_style, "chinese_font", lambda: None)
    assert chart_words("zh-CN") == WORDS


@pytest.mark.skipif(chinese_font() is None, reason="no font with Chinese letters here")
def test_chinese_words_are_drawn(recwarn: pytest.WarningsRecorder) -> None:
    charts(dict(chart_words("zh")))
    assert not [w for w in recwarn if "missing" in str(w.message)]
