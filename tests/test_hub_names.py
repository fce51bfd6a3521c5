"""Names of models on a hub: repositories, revisions, the catalogue, and names that are none."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explainers.models import hub
from explainers.models.catalogue import CATALOGUE
from explainers.models.errors import ModelError
from explainers.models.loading import load_model
from tests.hub_of_one import CONTENT, _only_this_machine, key_of, small, take_the_network_away
from tests.small_hub import SmallHub


@pytest.mark.parametrize("scheme", ["hf-hub:", "hf_hub:"])
def test_a_repository_by_its_id(small: SmallHub, scheme: str) -> None:
    labels = [f"thing {i}" for i in range(1000)]
    config = {
        "architecture": "test_vit",
        "num_classes": 1000,
        "label_names": labels,
        "pretrained_cfg": {"input_size": [3, 160, 160], "mean": [0.1, 0.2, 0.3], "std": [1, 1, 1]},
    }
    small.files["someone/things", "config.json"] = json.dumps(config).encode()
    small.files["someone/things", "model.safetensors"] = CONTENT
    vit = load_model(f"{scheme}someone/things")
    assert vit.name == "hf-hub:someone/things"
    assert vit.labels == tuple(labels)
    assert vit.preprocessing.mean == (0.1, 0.2, 0.3)
    assert hub.is_cached("hf-hub:someone/things")
    before = len(small.requests)
    assert load_model("hf-hub:someone/things").weights_hash == vit.weights_hash
    assert len(small.requests) == before


def test_a_repository_of_another_library(small: SmallHub) -> None:
    config = {"architectures": ["ViTForImageClassification"]}
    small.files["someone/things", "config.json"] = json.dumps(config).encode()
    with pytest.raises(ModelError, match="not a model of timm") as error:
        load_model("hf-hub:someone/things")
    assert key_of(error) == "hub_not_timm"
    assert small.sent() == []


def test_another_revision(small: SmallHub) -> None:
    config = {"architecture": "test_vit", "input_size": [3, 160, 160]}
    small.files["someone/things", "config.json"] = json.dumps(config).encode()
    small.files["someone/things", "model.safetensors"] = CONTENT
    vit = load_model("hf-hub:someone/things@v2")
    assert vit.name == "hf-hub:someone/things@v2"
    assert any("/resolve/v2/" in path for _, path, _ in small.requests)
    assert vit.notes[0].key == "labels_assumed"


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("vit_base_patch16_244", "model_unknown", "vit_base_patch16_224"),
        ("Embeded", "model_unknown", "embedded"),
        ("vit_base_patch16_224.nonsense", "model_unknown", "augreg2_in21k_ft_in1k"),
        ("vit_base_r26_s32_224", "model_no_weights", ".safetensors"),
        ("https://somewhere.example/model.safetensors", "model_name_place", "address"),
        ("timm/vit_base_patch16_224", "model_name_place", "hf-hub:owner/model"),
        ("../../etc/passwd", "model_name_place", "neither"),
        ("hf-hub:../secrets", "model_name_hub", "owner/model"),
        ("hf-hub:owner", "model_name_hub", "owner/model"),
        ("hf-hub:owner/model@../../x", "model_name_hub", "revision"),
        ("local-dir:weights", "model_name_place", "neither"),
        ("", "model_unlike", "hf-hub:owner/model"),
    ],
)
def test_names_that_are_none(
    monkeypatch: pytest.MonkeyPatch, name: str, key: str, words: str
) -> None:
    attempts = take_the_network_away(monkeypatch)
    with pytest.raises(ModelError) as error:
        load_model(name)
    assert key_of(error) == key
    assert words in str(error.value)
    assert attempts == []


def test_a_renamed_model_is_found() -> None:
    assert hub.source("vit_base_patch16_224_in21k").name == "vit_base_patch16_224.augreg_in21k"


def test_every_name_of_the_catalogue_is_a_model_that_is_read(tmp_path: Path) -> None:
    from explainers.models.build import skeleton
    from explainers.models.recipe import Recipe

    assert len({entry.name for entry in CATALOGUE}) == len(CATALOGUE) >= 12
    for entry in CATALOGUE:
        if entry.name == "embedded":
            assert entry.state(tmp_path) == "embedded"
            continue
        assert entry.state(tmp_path) == "download"
        assert hub.source(entry.name) == hub.Source(
            entry.name, f"timm/{entry.name}", ("model.safetensors",)
        )
        module = skeleton(Recipe(entry.name))
        megabytes = sum(tensor.numel() for tensor in module.state_dict().values()) * 4e-6
        assert entry.megabytes == pytest.approx(megabytes, rel=0.02)


def test_the_catalogue_sees_the_cache(tmp_path: Path) -> None:
    entry = CATALOGUE[2]
    repository = tmp_path / f"models--timm--{entry.name}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    (repository / "snapshots" / "abc").mkdir(parents=True)
    (repository / "snapshots" / "abc" / "model.safetensors").write_bytes(b"weights")
    assert entry.state(tmp_path) == "cached"
