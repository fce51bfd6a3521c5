"""Figures: width, fonts and text of the files themselves, and what made them in the metadata."""

from __future__ import annotations

import io
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from explainers import HeatMap, Photo, explain, load_photo, methods, wrap_model
from explainers.heatmap import Target
from explainers.recipe import open_recipe, recipe_of
from explainers.render.captions import bibtex, caption_text
from explainers.render.layout import GAP, SUFFIXES, Layout, letter
from explainers.render.millimetres import MM
from explainers.render.plate import Panel, plate, plate_bytes, unit_of
from explainers.render.venues import VENUES
from explainers.views.agreement import agreement, difference
from tests.tiny import LABELS, tiny_photo_array, tiny_vit

pypdf = pytest.importorskip("pypdf")
PHOTO = load_photo(tiny_photo_array(), name="tea $x^2$ & co.png")


@pytest.fixture(scope="module")
def panels() -> list[Panel]:
    trace = wrap_model(tiny_vit(), labels=LABELS, name="tiny").trace(PHOTO)
    found = [Panel(PHOTO, PHOTO.name)]
    for name in ("rollout", "input_x_gradient", "feature_pca"):
        heat = explain(name, trace)
        assert isinstance(heat, HeatMap)
        found.append(Panel(heat, heat.title))
    return found


def maps(panels: list[Panel]) -> list[HeatMap]:
    return [panel.what for panel in panels if isinstance(panel.what, HeatMap)]


def read(contents: bytes) -> Any:
    reader = pypdf.PdfReader(io.BytesIO(contents))
    assert len(reader.pages) == 1
    return reader


@pytest.mark.parametrize("venue", VENUES, ids=lambda venue: venue.name)
def test_the_page_is_as_wide_as_the_column(venue: Any, panels: list[Panel]) -> None:
    for width in filter(None, (venue.single, venue.double)):
        box = read(plate_bytes(panels[1:2], Layout(width=width, dpi=72), ".pdf")).pages[0].mediabox
        assert float(box.width) / 72 * MM == pytest.approx(width, abs=0.1)


def test_text_is_text_in_embedded_fonts(panels: list[Panel]) -> None:
    page = read(plate_bytes(panels, Layout(), ".pdf")).pages[0]
    text = page.extract_text()
    for expected in ("Attention rollout", "Input × gradient", "logit", "share of attention"):
        assert expected in " ".join(text.split())
    assert "tea $x^2$ & co.png" in " ".join(text.split())
    fonts = [font.get_object() for font in page["/Resources"]["/Font"].values()]
    assert fonts
    for font in fonts:
        inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
        assert inner["/Subtype"] in ("/TrueType", "/CIDFontType2")  # type 42, not outlines
        assert "/FontFile2" in inner["/FontDescriptor"].get_object()


def test_the_font_has_the_size_asked_for(panels: list[Panel]) -> None:
    page = read(plate_bytes(panels, Layout(font=9), ".pdf")).pages[0]
    sizes = {float(size) for size in re.findall(rb" ([\d.]+) Tf", page.get_contents().get_data())}
    assert sorted(sizes) == pytest.approx([8.1, 9])


def test_pictures_have_300_dots_an_inch_and_more(panels: list[Panel]) -> None:
    for dpi in (300, 450):
        layout = Layout(width=89, columns=2, dpi=dpi)
        page = read(plate_bytes(panels, layout, ".pdf")).pages[0]
        side = (89 - GAP) / 2 / MM  # inches
        wide = [image.image.width for image in page.images if image.image.height > 1]
        assert len(wide) == len(panels)
        assert min(wide) == math.ceil(side * dpi)


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_pixel_files_have_size_and_resolution(suffix: str, panels: list[Panel]) -> None:
    with Image.open(io.BytesIO(plate_bytes(panels, Layout(width=89, dpi=400), suffix))) as image:
        assert image.info["dpi"][0] == pytest.approx(400, abs=0.1)
        assert image.width / 400 * MM == pytest.approx(89, abs=0.1)


def test_svg_has_text_and_millimetres(panels: list[Panel]) -> None:
    svg = plate_bytes(panels, Layout(width=89), ".svg").decode()
    width = re.search(r'<svg [^>]*width="([\d.]+)pt"', svg, re.DOTALL)
    assert width
    assert float(width[1]) / 72 * MM == pytest.approx(89, abs=0.1)
    assert ">Attention rollout</text>" in svg


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_carry_their_recipe_and_are_the_same_each_time(
    suffix: str, panels: list[Panel], tmp_path: Path
) -> None:
    contents = plate_bytes(panels, Layout(), suffix)
    if suffix != ".tiff":  # libtiff leaves bytes between its parts as they were in memory
        assert contents == plate_bytes(panels, Layout(), suffix)
    assert b"CreationDate" not in contents
    path = tmp_path / f"figure{suffix}"
    path.write_bytes(contents)
    assert open_recipe(path).maps == recipe_of(maps(panels)).maps


def test_a_panel_is_the_overlay_with_its_bar_and_letter(panels: list[Panel]) -> None:
    layout = Layout(width=80, columns=2)
    figure = plate(panels, layout)
    words = [text.get_text() for text in figure.texts]
    assert [word for word in words if len(word) == 1 and word.isalpha()] == ["a", "b", "c", "d"]
    pictures = [axes.images[0].get_array() for axes in figure.axes]
    assert len(pictures) == len(panels) + 2  # the photo and the colours have no bar
    side = math.ceil((80 - GAP) / 2 / MM * 300)
    rollout = panels[1].what
    assert isinstance(rollout, HeatMap)
    np.testing.assert_array_equal(pictures[1], np.asarray(rollout.overlay(width=side)))
    bare = plate(panels, Layout(letters=False, bars=False))
    assert len(bare.axes) == len(panels)
    assert "a" not in [text.get_text() for text in bare.texts]


def test_long_titles_stay_in_their_panel(panels: list[Panel]) -> None:
    long = [Panel(panel.what, "Rollout of a very long name indeed, " * 3) for panel in panels]
    layout = Layout(width=89, columns=3)
    figure = plate(long, layout)
    figure.set_dpi(600)
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    width = figure.bbox.width
    side = (89 - 2 * GAP) / 3 / 89 * width
    for text in figure.texts:
        box = text.get_window_extent(renderer)
        column = round(box.x0 // (side + GAP / 89 * width))
        assert box.x1 <= (column * (side + GAP / 89 * width)) + side * 1.02


def test_letters_go_on_after_z() -> None:
    assert [letter(index) for index in (0, 25, 26, 51, 52)] == ["a", "z", "aa", "az", "ba"]


def test_caption_and_bibtex_name_what_was_used(panels: list[Panel]) -> None:
    heats = maps(panels)
    twice = [*panels, Panel(heats[0], "Attention rollout again")]
    text = caption_text(twice, Layout())
    assert text.startswith("(a) tea $x^2$ & co.png. (b) Attention rollout: How attention adds up")
    assert text.count("Abnar") == 1
    assert "(e) Attention rollout again." in text
    assert "Each map has its own colour scale." in text
    assert f"Model: tiny (weights {heats[0].provenance['loaded_weights_sha256'][:8]})" in text
    entries = bibtex(heats)
    for name in ("rollout", "input_x_gradient", "feature_pca"):
        assert entries.count(methods()[name].bibtex) == 1
    assert "; fusion mean, discard 0" in text  # what the first map was made with
    assert text.count("fusion mean") == 1
    assert f"Input × gradient ({heats[1].target.probability:.1%}): " in text  # type: ignore[union-attr]
    shared = [Panel(heat, heat.title, {"limit": 1.0}) for heat in heats[:2]]
    assert "one colour scale" in caption_text(shared, Layout(letters=False))


def test_a_contrast_is_in_the_unit(panels: list[Panel]) -> None:
    heat = maps(panels)[0]
    aim = Target(0, "lion", 0.5)
    for name, settings, unit in (
        ("occlusion", {"score": "probability"}, "fall of the difference of probabilities"),
        ("saliency", {}, "|∂ difference of logits / ∂ pixel|"),
        ("rollout", {}, "share of attention, rolled out"),
    ):
        held = replace(heat, method=name, parameters=settings, target=aim, against=aim)
        assert unit_of(held) == unit


def test_maps_made_of_maps_have_units_and_sources(panels: list[Panel]) -> None:
    rollout = maps(panels)[0]
    consensus, zero = agreement([rollout, rollout]).consensus, difference(rollout, rollout)
    assert unit_of(consensus) == "mean rank, 0 to 1"
    assert bibtex([consensus, zero]) == methods()["rollout"].bibtex
    drawn = [Panel(consensus, "Consensus"), Panel(zero, "Difference")]
    assert read(plate_bytes(drawn, Layout(), ".pdf"))
    assert "ViTScope" in caption_text(drawn, Layout())


@pytest.mark.parametrize("top", [0.00196, 0.5, 1234.5, 1e-7])
def test_numbers_below_a_bar_never_touch(panels: list[Panel], top: float) -> None:
    heat = maps(panels)[0]
    scaled = replace(heat, values=heat.values / heat.values.max() * top)
    drawn = plate([Panel(scaled, "")], Layout(width=20))
    drawn.canvas.draw()
    numbers = [text for text in drawn.texts if text.get_text()[:1].isdigit()]
    boxes = sorted((text.get_window_extent() for text in numbers), key=lambda box: box.x0)
    assert len(boxes) >= 2
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


def test_a_map_without_a_unit_says_so(panels: list[Panel]) -> None:
    trace = wrap_model(tiny_vit(), labels=LABELS, name="tiny").trace(PHOTO)
    heat: Any = explain("grad_cam", trace)
    drawn = plate([Panel(heat, heat.title)], Layout())
    assert "arbitrary units" in [text.get_text() for text in drawn.texts]


@pytest.mark.parametrize("name", methods())
def test_every_unit_can_be_filled_in(name: str) -> None:
    method = methods()[name]
    assert "{" not in method.unit.format(**method.defaults)


def test_what_cannot_be_laid_out_is_refused(panels: list[Panel]) -> None:
    for wrong in ({"width": 5}, {"font": 99}, {"dpi": 10}, {"columns": -1}, {"width": math.nan}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be from"):
            Layout(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="0 pictures in 1 columns do not fit"):
        plate([], Layout())
    with pytest.raises(ValueError, match="choose fewer columns"):
        plate(panels * 5, Layout(width=60, columns=20))
    with pytest.raises(ValueError, match=r"\.bmp is none of these"):
        plate_bytes(panels, Layout(), ".bmp")
    assert isinstance(panels[0].what, Photo)
