"""Chinese, Japanese and Korean names are letters, not boxes, in every picture and figure."""

from __future__ import annotations

import io
import logging
import warnings
from dataclasses import replace

import numpy as np
import pytest
from PIL import ImageChops

from explainers import HeatMap, explain, load_photo, wrap_model
from explainers.render import fonts
from explainers.render.animation import frames
from explainers.render.figure import figure_bytes
from explainers.render.fonts import chinese_font, families, text_font
from explainers.render.layout import Layout
from explainers.render.millimetres import Page, text_lines, text_width
from explainers.render.plate import Panel, plate_bytes
from explainers.render.sheet import contact_sheet, with_legend
from tests.tiny import LABELS, tiny_photo_array, tiny_vit

NAMES = ("金毛寻回犬（Golden Retriever）", "スコッチ・テリア", "한국어 개")
needs_font = pytest.mark.skipif(
    chinese_font() is None, reason="no font with Chinese letters on this machine"
)


@pytest.fixture(scope="module")
def heat() -> HeatMap:
    labels = [*NAMES, *LABELS[len(NAMES) :]]
    photo = load_photo(tiny_photo_array(), name="草原上的狮子.png")
    found = explain("input_x_gradient", wrap_model(tiny_vit(), labels=labels).trace(photo), 0)
    assert isinstance(found, HeatMap)
    return found


def panels(heat: HeatMap) -> list[Panel]:
    long = "很长的标题需要换行" * 5
    return [Panel(heat.photo, heat.photo.name), Panel(heat, long), Panel(heat, "English")]


@needs_font
@pytest.mark.parametrize("suffix", [".pdf", ".svg", ".png", ".tiff"])
def test_no_letter_is_missing_in_figures(heat: HeatMap, suffix: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plate_bytes(panels(heat), Layout(width=120, columns=2, dpi=72), suffix)
        if suffix != ".png":
            figure_bytes(heat, suffix)


@needs_font
def test_pdfs_hold_the_names_as_text_in_embedded_fonts(heat: HeatMap) -> None:
    pypdf = pytest.importorskip("pypdf")
    for contents in (figure_bytes(heat, ".pdf"), plate_bytes(panels(heat), Layout(), ".pdf")):
        page = pypdf.PdfReader(io.BytesIO(contents)).pages[0]
        assert heat.photo.name in page.extract_text()
        used = [font.get_object() for font in page["/Resources"]["/Font"].values()]
        # type 3 holds its shapes itself; type 42 with CFF outlines is nothing Acrobat can read
        assert {font["/Subtype"] for font in used} == {"/Type3"}
        assert all("/CharProcs" in font and "/ToUnicode" in font for font in used)


@needs_font
def test_pictures_show_each_letter_by_its_own_shape(heat: HeatMap) -> None:
    """A box is the same for all letters: another name must give another picture."""
    assert heat.target is not None
    other = replace(heat, target=replace(heat.target, label="哈士奇雪橇狗（Golden Retriever）"))
    assert with_legend(heat, width=300).tobytes() != with_legend(other, width=300).tobytes()
    one, two = (contact_sheet([(heat, "")], tile=300, title=title) for title in ("金毛", "狮子"))
    assert ImageChops.difference(one, two).getbbox() is not None
    first, second = (frames([heat], [caption])[0] for caption in ("金毛", "狮子"))
    assert ImageChops.difference(first, second).getbbox() is not None


@needs_font
@pytest.mark.parametrize("text", [*NAMES, "plain words"])
def test_a_text_is_as_wide_as_it_was_measured(text: str) -> None:
    page = Page(200, 20)
    page.text(10, 5, text, 12)
    drawn = page.figure.texts[0].get_window_extent()
    measured = text_width(text, 12) * page.figure.dpi / 25.4
    assert drawn.width == pytest.approx(measured, rel=0.03, abs=2)


@needs_font
def test_lines_fit_and_a_line_without_chinese_keeps_the_font_of_its_text() -> None:
    text = "金毛寻回犬 and a line of nothing but English words " * 2
    lines = text_lines(text, 7, 40)
    page = Page(60, 60)
    for place, line in enumerate(lines):
        page.text(0, 4 * place, line, 7, whole=text)
    room = 40 * page.figure.dpi / 25.4
    assert any(line.isascii() for line in lines)
    for drawn in page.figure.texts:
        assert drawn.get_window_extent().width <= room + 2
        assert drawn.get_fontfamily()[0] == chinese_font()


def test_other_texts_stay_in_the_usual_font(heat: HeatMap) -> None:
    for text in ("", "Terrier", "Élan − Ωμέγα, Привет"):
        assert families(text) is None
        assert text_font(12, text).getname() == ("DejaVu Sans", "Book")


def test_without_such_a_font_boxes_are_drawn_and_one_sentence_is_logged(
    heat: HeatMap, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fonts, "chinese_font", lambda: None)
    fonts._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, logger="explainers"):
        assert families(NAMES[0]) is None
        assert np.asarray(with_legend(heat, width=300)).shape[1] == 300
        contact_sheet([(heat, NAMES[1])])
    ours = [record for record in caplog.records if record.name.startswith("explainers")]
    assert len(ours) == 1
    fonts._warn_once.cache_clear()
