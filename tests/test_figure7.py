"""The ViT paper's figure 7: heads over a set of photos, on several grids; the file; the command."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from pypdf import PdfReader

from explainers import load_photo, wrap_model
from explainers.__main__ import main
from explainers.methods.explain import Cancelled
from explainers.registry import find_method
from explainers.render.figure7 import figure7_bytes
from explainers.render.figure7_text import about, caption
from explainers.render.layout import Layout
from explainers.render.metadata import read_metadata
from explainers.sentence import Sentence
from explainers.views.figure7 import figure7
from explainers.views.heads import head_figures, head_figures_of
from tests.tiny import seeded, tiny_photo_array, tiny_vit

PHOTOS = [load_photo(tiny_photo_array(seed=seed)) for seed in (2, 3, 4)]


@pytest.fixture
def vit():  # type: ignore[no-untyped-def]
    return wrap_model(tiny_vit(dtype=torch.float32), name="tiny")


def test_heads_over_photos_are_the_mean_of_each_photo_s(vit) -> None:  # type: ignore[no-untyped-def]
    seen: list[tuple[int, int]] = []
    found = head_figures_of(vit, PHOTOS, lambda *at: seen.append(at))
    single = [head_figures(vit.trace(photo)) for photo in PHOTOS]
    np.testing.assert_allclose(found.distance, np.mean([one.distance for one in single], axis=0))
    np.testing.assert_allclose(found.entropy, np.mean([one.entropy for one in single], axis=0))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert found.distance.shape == (3, 2)


def test_cancelling_ends_it_after_the_photo_in_hand(vit) -> None:  # type: ignore[no-untyped-def]
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        head_figures_of(vit, PHOTOS, stop)
    with pytest.raises(ValueError, match="give at least one"):
        head_figures_of(vit, [])


def test_blocks_with_grids_and_heads_of_their_own() -> None:
    """Swin: 4×4 cells of 4 px with 2 heads, then 2×2 of 8 px with 4; windows of 2×2 cells."""
    with seeded(0):
        module = timm.create_model(
            "swin_tiny_patch4_window7_224",
            **{"img_size": 16, "window_size": 2, "embed_dim": 8, "num_classes": 3},
            **{"depths": (2, 1), "num_heads": (2, 4)},
        ).eval()
    trace = wrap_model(module.double()).trace(PHOTOS[0])
    found = head_figures(trace)
    assert found.distance.shape == (3, 4)
    for block, (side, cell, heads) in enumerate(((4, 4, 2), (4, 4, 2), (2, 8, 4))):
        assert np.isnan(found.distance[block, heads:]).all()
        places = [(r * cell, c * cell) for r in range(side) for c in range(side)]
        for head in range(heads):
            A = trace.attention(block, head)
            reach = sum(
                float(A[i, j] / A[i].sum()) * math.dist(places[i], places[j])
                for i in range(side**2)
                for j in range(side**2)
            )
            entropy = -sum(float(a) * math.log(a) for a in A.flatten() if a > 0)
            assert found.distance[block, head] == pytest.approx(reach / side**2)
            wanted = entropy / side**2 / math.log(side**2)
            assert found.entropy[block, head] == pytest.approx(wanted)


def test_the_pdf_has_the_width_asked_for_real_text_and_embedded_fonts(vit) -> None:  # type: ignore[no-untyped-def]
    found = figure7(vit, PHOTOS)
    for width in (183, 89):
        pdf = PdfReader(io.BytesIO(figure7_bytes(found, Layout(width=width), ".pdf")))
        (page,) = pdf.pages
        assert float(page.mediabox.width) == pytest.approx(width / 25.4 * 72, abs=0.05)
        text = page.extract_text()
        for word in ("principal components", "Mean attention distance", "cosine", "block"):
            assert word in text
        fonts = page["/Resources"]["/Font"].values()  # type: ignore[index]
        parts = [font.get_object()["/DescendantFonts"][0].get_object() for font in fonts]
        assert all("/FontFile2" in part["/FontDescriptor"].get_object() for part in parts)
    assert figure7_bytes(found, Layout(), ".pdf") == figure7_bytes(found, Layout(), ".pdf")


def test_every_number_is_in_the_file(vit, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    found = figure7(vit, PHOTOS, 5)
    for suffix in (".pdf", ".svg", ".png", ".tiff"):
        path = tmp_path / f"figure{suffix}"
        path.write_bytes(figure7_bytes(found, Layout(dpi=72), suffix))
        made = read_metadata(path)
        assert made == json.loads(json.dumps(about(found)))
        np.testing.assert_array_equal(made["heads"]["distance"], found.heads.distance)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"\.jpg"):
        figure7_bytes(found, Layout(), ".jpg")
    with pytest.raises(ValueError, match="do not fit into 40 mm"):
        figure7_bytes(found, Layout(width=40, columns=4), ".pdf")


def test_what_a_model_lacks_is_told_in_its_place() -> None:
    """Turned queries and keys instead of learned positions."""
    with seeded(0):
        module = timm.create_model(
            "vit_small_patch16_dinov3",
            **{"img_size": 16, "patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2},
        ).eval()
    found = figure7(wrap_model(module), PHOTOS[:1], 5)
    assert isinstance(found.positions, Sentence)
    assert not isinstance(found.heads, Sentence)
    text = PdfReader(io.BytesIO(figure7_bytes(found, Layout(), ".pdf"))).pages[0].extract_text()
    plain = " ".join(text.split())
    assert str(found.positions).split(",")[0][:20] in plain
    assert f"(b) No positions: {found.positions}" in caption(found)
    assert "over 1 photo." in caption(found)
    nothing = replace(found, filters=found.positions, heads=found.positions)
    assert nothing.empty
    assert caption(nothing).startswith(f"(a) No filters: {found.positions}")
    figure7_bytes(nothing, Layout(), ".pdf")


def test_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, photo in enumerate(PHOTOS[:2]):
        photo.to_pil().save(photos / f"{number}.png")
    out = tmp_path / "figure.png"
    argv = ["figure7", str(photos), "--model", "embedded", "--size", "56", "--device", "cpu"]
    argv += ["--width", "89", "--quiet"]
    assert main([*argv, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "over 2 photos" in said
    assert find_method("attention").bibtex in said
    with Image.open(out) as picture:
        assert picture.width == pytest.approx(89 / 25.4 * 300, abs=1)
    assert read_metadata(out)["size"] == [56, 56]
    (photos / "half.png").write_bytes(out.read_bytes()[:50])
    assert main([*argv, "--out", str(out)]) == 1
    assert "Left out: half.png" in capsys.readouterr().err


def test_a_figure_that_cannot_be_written_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photo = tmp_path / "a.png"
    PHOTOS[0].to_pil().save(photo)
    out = photo / "x.pdf"
    argv = ["figure7", str(photo), "--model", "embedded", "--size", "56", "--device", "cpu"]
    assert main([*argv, "--quiet", "--out", str(out)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"{out} cannot be written (Not a directory); choose a file in a folder that exists and "
        "may be written to."
    )


def test_what_the_command_cannot_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it is said before a model is loaded."""
    argv = ["figure7", str(tmp_path), "--model", "no/such/model"]
    for more, code, said in (
        (["--out", "figure.jpg"], 2, ".jpg is none of these"),
        (["--width", "20", "--font", "20"], 2, "do not fit into 20 mm"),
        (["--size", "native"], 2, "give --size in pixels"),
        ([], 3, "No photo was found"),
    ):
        assert main([*argv, *more]) == code
        assert said in capsys.readouterr().err
    PHOTOS[0].to_pil().save(tmp_path / "photo.png")
    assert main(argv) == 2
