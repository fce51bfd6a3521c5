"""Labels and heads of loaded models: which answer with classes, and what is known of these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import timm
from safetensors.torch import save_file

from explainers.models import head_labels
from explainers.models.errors import ModelError
from explainers.models.labels import imagenet_labels
from explainers.models.loading import load_model
from explainers.models.recipe import Recipe
from tests.weights_files import ARCH, module, write


def test_labels_must_be_one_a_class(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.safetensors", module())
    (tmp_path / "labels.txt").write_text("a\nb\n")
    with pytest.raises(ModelError, match=r"2 labels .* 3 classes"):
        load_model(path, arch=ARCH, labels=tmp_path / "labels.txt")
    (tmp_path / "labels.json").write_text('{"0": "a", "1": "b", "2": "c"}')
    assert load_model(path, arch=ARCH, labels=str(tmp_path / "labels.json")).label(2) == "c"


@pytest.mark.parametrize(
    ("classes", "first", "key"),
    [
        (1000, "tench, Tinca tinca", "labels_assumed"),
        (1001, "background", "labels_assumed"),
        (7, None, "labels_unknown"),
    ],
)
def test_what_is_known_of_the_classes_is_said(
    tmp_path: Path, classes: int, first: str | None, key: str
) -> None:
    vit = load_model(write(tmp_path / "mine.safetensors", module(classes)), arch=ARCH)
    assert [note.key for note in vit.notes] == [key]
    assert (vit.labels[0] if vit.labels else None) == first
    assert vit.label(5).startswith("class 5") == (first is None)


def test_labels_that_do_not_fit_the_head_are_not_guessed() -> None:
    recipe = Recipe(ARCH, labels=["a", "b"], foreign=True)
    labels, note = head_labels.head_labels(recipe, 1000)
    assert labels is None
    assert note is not None
    assert note.key == "labels_unknown"


@pytest.mark.parametrize(
    ("architecture", "classes", "key"),
    [
        ("vit_base_patch16_clip_224.openai", 512, "embedding_head"),
        ("vit_pe_core_base_patch16_224.fb", 1024, "embedding_head"),
        ("vit_base_patch16_clip_224.openai_ft_in1k", 1000, None),
        ("vit_base_patch16_clip_224.openai_ft_in12k", 11821, None),
        ("vit_base_patch16_224.augreg_in21k", 21843, None),
        ("vit_base_patch16_224.bamboo", 115217, "labels_unknown"),
    ],
)
def test_which_heads_answer_with_classes(architecture: str, classes: int, key: str | None) -> None:
    labels, note = head_labels.head_labels(Recipe(architecture), classes)
    assert (note.key if note else None) == key
    assert labels == (imagenet_labels(classes) if key is None else None)


def test_a_tower_trained_against_texts_has_no_classes(tmp_path: Path) -> None:
    arguments = {"embed_dim": 48, "depth": 2, "num_heads": 2, "num_classes": 32}
    model = timm.create_model("vit_base_patch16_clip_224", **arguments)
    save_file(model.state_dict(), tmp_path / "mine.safetensors")
    config = {"architecture": "vit_base_patch16_clip_224", "model_args": arguments}
    (tmp_path / "config.json").write_text(json.dumps(config))
    vit = load_model(tmp_path / "mine.safetensors")
    assert vit.classes == 0
    assert [note.key for note in vit.notes] == ["embedding_head"]
    named = load_model(tmp_path / "mine.safetensors", labels=[f"text {i}" for i in range(32)])
    assert named.classes == 32


@pytest.mark.parametrize(
    "labels",
    [
        {"label_names": [["a"], ["b"], ["c"]], "label_descriptions": {}},
        {"label_names": 5, "label_descriptions": {"a": "b"}},
        {"label_names": ["a", "b"]},
        {"label_names": ["a", "b", "c"], "label_descriptions": {"a": 5}},
    ],
    ids=str,
)
def test_names_that_cannot_be_read_leave_the_classes_without(tmp_path: Path, labels: Any) -> None:
    path = write(tmp_path / "mine.safetensors", module())
    (tmp_path / "config.json").write_text(json.dumps({"architecture": ARCH, **labels}))
    vit = load_model(path)
    assert (vit.labels, [note.key for note in vit.notes]) == (None, ["labels_unknown"])
