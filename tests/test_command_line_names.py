"""`python -m explainers explain` and names: of photos, results, and folders named as classes."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path

import pytest

from explainers.command.index import Index
from explainers.command.photos import find_photos
from explainers.command.true_classes import TrueClasses
from explainers.models.labels import imagenet_labels
from explainers.models.vision_model import VisionModel
from explainers.models.wrapping import wrap_model
from tests.command_line import Run, folder, made, out, passes, photo, rows, run, weights
from tests.tiny import LABELS, tiny_vit


def test_same_names_never_meet(run: Run, tmp_path: Path, out: Path) -> None:
    photo(tmp_path / "one" / "a.png")
    photo(tmp_path / "two" / "a.png")
    photo(tmp_path / "two" / "a.jpg")
    assert run(tmp_path / "one", tmp_path / "two", tmp_path / "two" / "a.png") == 0
    files = ["one/a.png", "two/a.jpg", "two/a.png"]
    assert list(rows(out)) == files
    assert [f for f in made(out) if "rollout" in f] == [f"{file}.rollout.png" for file in files]


@pytest.mark.parametrize(
    "name",
    [
        "猫 and dog.png",
        "=1+1.png",
        "'-x.png",
        "@a | b.png",
        "l" * 240 + ".png",
        'a\nb,"c".png',
        "a\rb.png",
    ],
    ids=["unicode", "formula", "apostrophe", "separator", "long", "newline", "return"],
)
def test_odd_names(run: Run, tmp_path: Path, out: Path, passes: list[int], name: str) -> None:
    photo(tmp_path / "in" / name)
    assert run(tmp_path / "in") == 0
    with open(out / "index.csv", encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t"))]
    assert list(Index(out / "index.csv").rows) == [name]
    passes.clear()
    assert run(tmp_path / "in") == 0
    assert passes == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only Unicode names")
def test_names_that_are_no_unicode(run: Run, tmp_path: Path, out: Path) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    photo(tmp_path / "in" / name)
    assert run(tmp_path / "in") == 0
    assert b"caf\xe9.png" in (out / "index.csv").read_bytes()
    assert list(Index(out / "index.csv").rows) == [name]


def test_walking_finds_pictures_sorted_and_skips_hidden_ones_and_results(tmp_path: Path) -> None:
    root = tmp_path / "all"
    for name in ("b/x.JPG", "a/y.webp", ".hidden/z.png", "a/.z.png", "a/b/c.tif", "note.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for name in ("maps/a/y.webp.rollout.png", "a/y.webp.rollout.png", "a/alone.rollout.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "loop").symlink_to(root)
    (root / "linked").symlink_to(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "l.png").touch()
    found, closed = find_photos([str(root)], root / "maps")
    expected = ["a/alone.rollout.png", "a/b/c.tif", "a/y.webp", "b/x.JPG", "linked/l.png"]
    assert [photo.file for photo in found] == expected
    assert closed == []
    assert found[1].folders == ("b", "a", "all")
    (root / "contact_sheet_2.png").touch()
    inside, _ = find_photos([str(root)], root)
    assert "contact_sheet_2.png" not in [photo.file for photo in inside]


def test_results_among_the_photos(run: Run, folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert run(folder, "--out", folder) == 0
        assert len(rows(folder)) == 4
    assert (folder / "tabby" / "a.png.rollout.png").exists()


def test_folders_that_name_classes() -> None:
    classes = TrueClasses(wrap_model(tiny_vit(), labels=LABELS))
    for name, index in (
        ("tabby", 0),
        ("Persian_cat", 1),
        ("KING OF BEASTS", 3),
        ("lion, king of beasts", 3),
        ("4", 4),
        ("5", None),
        ("cat", None),
        ("images", None),
        ("n02123045", None),
        ("", None),
    ):
        assert classes.find([name]) == index, name
    assert classes.find(["images", "train", "lion"]) == 3


def test_wordnet_ids_of_imagenet_and_of_the_embedded_model(embedded: VisionModel) -> None:
    classes = TrueClasses(embedded)
    assert embedded.label(classes.find(["n02124075"]) or 0) == "Egyptian cat"
    vit = wrap_model(tiny_vit(num_classes=1000), labels=imagenet_labels(1000))
    classes = TrueClasses(vit)
    assert classes.find(["n01440764"]) == 0
    assert classes.find(["n02123045-tabby"]) == 281
    assert classes.find(["crane"]) is None, "two classes are called so"
    background = wrap_model(tiny_vit(num_classes=1001), labels=imagenet_labels(1001))
    assert TrueClasses(background).find(["n01440764"]) == 1
