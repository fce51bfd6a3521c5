"""Names of classes: finding one, reading them from a file, the tables of ImageNet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explainers.models.errors import ModelError
from explainers.models.labels import find_class, imagenet_labels, read_labels, short
from tests.tiny import LABELS

MANY = ("crane", "crane", "cat", "cat, tabby", "lion, king of beasts", "sea lion", "7", "5")


@pytest.mark.parametrize(
    ("text", "index"),
    [
        (3, 3),
        ("4", 4),
        (" 0 ", 0),
        ("TABBY", 0),  # one part exactly, though others contain it
        ("tabby cat", 0),
        ("tabby cat, tabby", 0),
        ("King of Beasts", 3),
        ("lion", 3),
        ("espres", 2),
        ("pot", 4),
    ],
)
def test_a_class_is_found_by_index_or_name(text: int | str, index: int) -> None:
    assert find_class(LABELS, len(LABELS), text) == index


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("cat", 2),  # a whole label wins over another label's part
        ("lion", 4),  # a part wins over a piece
        ("7", 6),  # a label wins over the index
        ("3", 3),
    ],
)
def test_the_nearer_kind_of_hit_wins(text: str, index: int) -> None:
    assert find_class(MANY, len(MANY), text) == index


def test_several_hits_are_listed() -> None:
    with pytest.raises(ValueError, match="fits 2 classes: 0 tabby cat, tabby; 1 Persian cat"):
        find_class(LABELS, len(LABELS), "cat")
    with pytest.raises(ValueError, match="0 crane; 1 crane"):
        find_class(MANY, len(MANY), "Crane")
    labels = imagenet_labels(1000)
    with pytest.raises(ValueError, match=r"fits \d+ classes: .*; …"):
        find_class(labels, 1000, "terrier")


@pytest.mark.parametrize("text", [5, -1, "5", "99"])
def test_an_index_out_of_range_names_the_range(text: int | str) -> None:
    with pytest.raises(ValueError, match="from 0 to 4"):
        find_class(LABELS, len(LABELS), text)


def test_no_hit_names_what_is_near() -> None:
    with pytest.raises(ValueError, match="nearest names: espresso"):
        find_class(LABELS, len(LABELS), "expresso")
    with pytest.raises(ValueError, match="No class is called"):
        find_class(LABELS, len(LABELS), "")


def test_without_labels_only_an_index_works() -> None:
    assert find_class(None, 5, "4") == 4
    with pytest.raises(ValueError, match="have no names"):
        find_class(None, 5, "cat")


def test_short_is_the_first_name() -> None:
    assert short("lion, king of beasts") == "lion"


def test_labels_from_text(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_bytes("\ufefftabby cat, tabby\r\nÉclair\n\n".encode())
    assert read_labels(path) == ("tabby cat, tabby", "Éclair")


@pytest.mark.parametrize("found", [["a", "b"], {"0": "a", "1": "b"}, {"1": "b", "0": "a"}])
def test_labels_from_json(tmp_path: Path, found: object) -> None:
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(found))
    assert read_labels(path) == ("a", "b")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("labels.json", '{"0": "a", "2": "b"}', "no name for class 1"),
        ("labels.json", '["a", 3]', "no name for class 1"),
        ("labels.json", "[]", "any class"),
        ("labels.json", '"a"', "any class"),
        ("labels.json", "[", "cannot be read"),
        ("labels.txt", "a\n\nb\n", "no name for class 1"),
        ("labels.txt", "", "no name for class 0"),
    ],
)
def test_label_files_that_are_none(tmp_path: Path, name: str, content: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ModelError, match=words):
        read_labels(path)


def test_label_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"labels\.txt cannot be read \(No such file"):
        read_labels(tmp_path / "labels.txt")
    (tmp_path / "labels.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ModelError, match="expected UTF-8"):
        read_labels(tmp_path / "labels.txt")


@pytest.mark.parametrize(
    ("classes", "index", "label"),
    [
        (1000, 0, "tench, Tinca tinca"),
        (1001, 0, "background"),
        (1001, 1, "tench, Tinca tinca"),
        (11221, 0, "benthos"),
        (11821, 0, "benthos"),
        (21841, 0, "organism, being"),
        (21842, 0, "tench, Tinca tinca"),
        (21843, 0, "organism, being"),
    ],
)
def test_imagenet_tables_have_one_name_a_class(classes: int, index: int, label: str) -> None:
    labels = imagenet_labels(classes)
    assert labels is not None
    assert len(labels) == classes
    assert labels[index] == label


@pytest.mark.parametrize("classes", [0, 10, 512, 19168])
def test_no_table_of_that_size(classes: int) -> None:
    assert imagenet_labels(classes) is None
