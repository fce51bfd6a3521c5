"""Weights, pickles, configurations and settings that cannot work are refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from explainers.models.errors import ModelError
from explainers.models.loading import load_model
from explainers.models.reference_file import new_reference
from explainers.models.wrapping import wrap_model
from tests.weights_files import ARCH, key_of, module, same_answers, write


def test_pickles_only_when_allowed_and_only_tensors(tmp_path: Path) -> None:
    model = module()
    path = tmp_path / "mine.pth"
    torch.save({"state_dict": model.state_dict(), "epoch": 3}, path)
    with pytest.raises(ModelError, match="is a pickle") as error:
        load_model(path, arch=ARCH)
    assert key_of(error) == "pickle_refused"
    assert same_answers(load_model(path, arch=ARCH, allow_pickle=True), model)
    torch.save(model, path)  # a whole module: a program
    with pytest.raises(ModelError, match="not opened") as error:
        load_model(path, arch=ARCH, allow_pickle=True)
    assert key_of(error) == "pickle_unreadable"
    path.write_bytes(b"not a pickle")
    with pytest.raises(ModelError, match="damaged"):
        load_model(path, arch=ARCH, allow_pickle=True)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"", "weights_not_safetensors"),
        (b"\x08\0\0\0\0\0\0\0{}      ", "weights_not_safetensors"),
        (b"<html></html>", "weights_not_safetensors"),
    ],
)
def test_files_that_hold_no_weights(tmp_path: Path, content: bytes, key: str) -> None:
    path = tmp_path / "mine.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelError) as error:
        load_model(path, arch=ARCH)
    assert key_of(error) == key


def test_other_settings_that_cannot_work(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.safetensors", module())
    cases: list[tuple[str, dict[str, Any]]] = [
        ("weights_no_architecture", {}),
        ("model_unknown", {"arch": "test_vitt"}),
        ("family_unknown", {"arch": "test_resnet"}),
        ("model_unlike", {"arch": "xyzzy"}),
        ("model_unlike", {"arch": 5}),
        ("size_patches", {"arch": ARCH, "size": 100}),
        ("size_numbers", {"arch": ARCH, "size": (0, 160)}),
        ("size_numbers", {"arch": ARCH, "size": (160, 160, 3)}),
        ("size_numbers", {"arch": ARCH, "size": 3.5}),
        ("size_numbers", {"arch": ARCH, "size": True}),
        ("size_numbers", {"arch": ARCH, "size": "160"}),
        ("device_unknown", {"arch": ARCH, "device": "quantum"}),
        ("device_unknown", {"arch": ARCH, "device": "meta"}),
        ("device_unknown", {"arch": ARCH, "device": [1]}),
        ("labels_gap", {"arch": ARCH, "labels": 5}),
        ("labels_gap", {"arch": ARCH, "labels": {"a": "b"}}),
    ]
    for key, settings in cases:
        with pytest.raises(ModelError) as error:
            load_model(path, **settings)
        assert key_of(error) == key
    with pytest.raises(ModelError, match="no weights file"):
        load_model(tmp_path / "gone.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(ModelError, match="is a folder"):
        load_model(tmp_path / "folder.safetensors")
    for content in ("{", "[" * 100_000):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(ModelError, match="cannot be read"):
            load_model(path)


def test_sizes_and_labels_of_any_kind(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.safetensors", module())
    names: dict[str, str] = {"2": "c", "0": "a", "1": "b"}
    for size in (np.int64(64), [64, 64], np.array([64, 64]), torch.tensor(64)):
        vit = load_model(path, arch=ARCH, size=size, labels=names)  # type: ignore[arg-type]
        assert vit.preprocessing.size == (64, 64)
        assert vit.labels == ("a", "b", "c")
    wrapped = wrap_model(module(img_size=64), size=np.int64(64), labels=names)  # type: ignore[arg-type]
    assert wrapped.preprocessing.size == (64, 64)
    assert wrapped.labels == ("a", "b", "c")
    with pytest.raises(ModelError, match="no name for class 0"):
        wrap_model(module(), labels=[1, 2, 3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "wrong",
    [
        {"pretrained_cfg": None},
        {"pretrained_cfg": "x"},
        {"pretrained_cfg": [1]},
        {"pretrained_cfg": {"classifier": 5}},
        {"pretrained_cfg": {"classifier": [["head"]]}},
        {"pretrained_cfg": {"mean": "x"}},
        {"pretrained_cfg": {"mean": [1, 2]}},
        {"pretrained_cfg": {"std": [0, 0, 0]}},
        {"pretrained_cfg": {"std": [{}, {}, {}]}},
        {"pretrained_cfg": {"crop_pct": "a"}},
        {"pretrained_cfg": {"crop_pct": -1}},
        {"pretrained_cfg": {"crop_mode": ["a"]}},
        {"pretrained_cfg": {"interpolation": {}}},
        {"pretrained_cfg": {"interpolation": "zzz"}},
        {"pretrained_cfg": {"input_size": "abc"}},
        {"pretrained_cfg": {"input_size": [160]}},
        {"model_args": [1]},
        {"model_args": "ab"},
        {"model_args": {"nonsense": 1}},
        {"model_args": {"pretrained": True}},
        {"model_args": {"depth": "x"}},
        {"model_args": {"num_heads": 0}},
        {"model_args": {"patch_size": 0}},
        {"model_args": {"act_layer": [1]}},
        {"num_classes": "x"},
        {"num_classes": -5},
    ],
    ids=str,
)
def test_a_configuration_of_the_wrong_kind_is_refused(tmp_path: Path, wrong: Any) -> None:
    path = write(tmp_path / "mine.safetensors", module())
    config = json.dumps({"architecture": ARCH, "num_classes": 3, **wrong})
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ModelError) as error:
        load_model(path)
    assert "; " in str(error.value)
    with pytest.raises(ModelError):
        load_model(write(tmp_path / "headed.safetensors", module(), config=config))


@pytest.mark.parametrize(
    "arguments",
    [{"depth": "x"}, {"heads": 0}, {"patch_size": 0}, {"width": [1]}, {"image_size": 7}],
)
def test_a_reference_of_the_wrong_kind_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ModelError) as error:
        new_reference("reference_vit", arguments)
    assert key_of(error) in ("reference_arguments", "reference_sizes")


def test_weights_of_the_wrong_kind_are_refused(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    path = tmp_path / "mine.pth"
    torch.save({1: torch.zeros(2)}, path)
    with pytest.raises(ModelError, match="holds no weights"):
        load_model(path, arch=ARCH, allow_pickle=True)
    path.write_bytes(b"\x80\x05.")
    with pytest.raises(ModelError, match="damaged"):
        load_model(path, arch=ARCH, allow_pickle=True)
    assert not recwarn.list
    scalar = {**module().state_dict(), "head.weight": torch.tensor(1.0)}
    save_file(scalar, tmp_path / "scalar.safetensors")
    with pytest.raises(ModelError, match="do not fit"):
        load_model(tmp_path / "scalar.safetensors", arch=ARCH)
