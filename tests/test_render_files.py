"""Files of maps: the same bytes twice, what made them inside, and refusals in a sentence."""

from __future__ import annotations

import io
import json
import re
import time
import xml.dom.minidom
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image

from explainers.heatmap import Target
from explainers.image import Photo
from explainers.render.export import SUFFIXES, SaveError, png_bytes, read_npz, save, save_all
from explainers.render.figure import heat_figure, to_image
from explainers.render.legend import colour_bar, text_font
from explainers.render.overlay import overlay
from explainers.render.sheet import contact_sheet, wrapped
from tests.heat_maps import GRID, heat_map, hot, random_photo, whole


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
