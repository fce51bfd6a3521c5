"""Names of classes: finding one, reading them from a file, the tables of ImageNet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from explainers.models.errors import ModelError
from explainers.models.labels import (
    find_class,
    given_labels,
    imagenet_labels,
    read_labels,
    short,
)
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


@pytest.mark.parametrize("index", [np.int64(3), np.uint8(3), np.array(3), torch.tensor(3)])
def test_any_whole_number_is_an_index(index: Any) -> None:
    assert find_class(LABELS, len(LABELS), index) == 3


@pytest.mark.parametrize("wrong", [3.0, True, np.bool_(1), [3], np.array([3]), b"lion", None])
def test_what_is_neither_index_nor_label_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="whole number or a text"):
        find_class(LABELS, len(LABELS), wrong)


@pytest.mark.parametrize("text", ["9" * 5000, 10**5000, "x" * 5000], ids=range(3))
def test_endless_texts_are_refused_in_one_short_sentence(text: Any) -> None:
    with pytest.raises(ValueError, match="from 0 to 4") as error:
        find_class(LABELS, len(LABELS), text)
    assert len(str(error.value)) < 250


def test_no_hit_names_what_is_near() -> None:
    with pytest.raises(ValueError, match="nearest names: espresso"):
        find_class(LABELS, len(LABELS), "expresso")
    for unlike in ("", "xyzzy"):
        with pytest.raises(ValueError, match="no name comes near; give a part of a label"):
            find_class(LABELS, len(LABELS), unlike)


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


@pytest.mark.parametrize("labels", [("a", "b"), {"1": "b", "0": "a"}, np.array(["a", "b"])])
def test_labels_in_memory(labels: Any) -> None:
    assert given_labels(labels) == ("a", "b")


@pytest.mark.parametrize("wrong", [5, {"a": "0"}, {"a", "b"}, [1, 2], b"ab", [], ["a", None]])
def test_what_is_no_list_of_names_is_refused(wrong: Any) -> None:
    with pytest.raises(ModelError, match="expected one line a class"):
        given_labels(wrong)


def test_label_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"labels\.txt cannot be read \(No such file"):
        read_labels(tmp_path / "labels.txt")
    for endless in ("[" * 200_000, "9" * 5000):
        (tmp_path / "labels.json").write_text(endless)
        with pytest.raises(ModelError, match=r"labels\.json cannot be read"):
            read_labels(tmp_path / "labels.json")
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
