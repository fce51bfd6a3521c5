"""Loading models: the embedded one, and weights files of every shape and size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from explainers.models import loading
from explainers.models.errors import ModelError
from explainers.models.loading import load_model
from explainers.models.vision_model import VisionModel
from tests.tiny import seeded
from tests.weights_files import ARCH, key_of, module, same_answers, write


def test_the_embedded_model_is_the_one_of_its_card(embedded: VisionModel) -> None:
    card = next(loading.FOLDER.glob("*.json"))
    config = json.loads(card.read_text(encoding="utf-8"))
    plain = timm.create_model(config["architecture"], pretrained=False, **config["model_args"])
    weights = load_file(card.with_suffix(".safetensors"))
    plain.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    own = embedded.module.state_dict()
    assert all(torch.equal(tensor, own[name]) for name, tensor in plain.state_dict().items())
    assert embedded.name == "embedded"
    assert embedded.labels == tuple(config["labels"])
    assert embedded.classes == 200
    assert embedded.trained_grids == ((6, 6), (8, 8), (14, 14))
    assert embedded.dtype == torch.float32
    assert not embedded.module.training
    assert not any(parameter.requires_grad for parameter in embedded.module.parameters())
    expected = {key: config[key] for key in ("interpolation", "crop_pct", "crop_mode")}
    assert {key: getattr(embedded.preprocessing, key) for key in expected} == expected
    assert embedded.preprocessing.mean == tuple(config["mean"])
    assert embedded.preprocessing.std == tuple(config["std"])
    assert embedded.preprocessing.size == (196, 196)


def test_the_embedded_model_at_another_size() -> None:
    vit = load_model("embedded", size=(112, 224))
    assert vit.preprocessing.size == (112, 224)
    assert vit.adapter.grid((112, 224)) == (8, 16)
    assert vit.trained_grids == ((6, 6), (8, 8), (14, 14))


@pytest.mark.parametrize("prefix", ["", "module.", "model.", "_orig_mod.", "module._orig_mod."])
def test_a_weights_file_with_wrappers_in_its_names(tmp_path: Path, prefix: str) -> None:
    model = module()
    path = write(tmp_path / "mine.safetensors", model, prefix)
    vit = load_model(path, arch=ARCH, labels=["a", "b", "c"])
    assert same_answers(vit, model)
    assert vit.name == "mine.safetensors"
    assert vit.labels == ("a", "b", "c")
    assert vit.classes == 3
    assert not {"file", "state_dict"} & set(vit.module.pretrained_cfg)


def test_the_architecture_from_the_header(tmp_path: Path) -> None:
    model = module(0)
    vit = load_model(str(write(tmp_path / "mine.safetensors", model, architecture=ARCH)))
    assert same_answers(vit, model)
    assert vit.classes == 0
    assert vit.labels is None
    assert vit.notes == ()


def test_the_architecture_and_more_from_the_configuration_beside(tmp_path: Path) -> None:
    model = module(3, img_size=(96, 160))
    write(tmp_path / "mine.safetensors", model)
    config = {
        "architecture": ARCH,
        "num_classes": 3,
        "label_names": ["n1", "n2", "n3"],
        "label_descriptions": {"n1": "tench", "n3": "lion, king of beasts"},
        "model_args": {"img_size": [96, 160]},
        "pretrained_cfg": {
            "input_size": [3, 96, 160],
            "mean": [0.1, 0.2, 0.3],
            "std": [0.5, 0.5, 0.5],
            "crop_pct": 1.0,
            "crop_mode": "squash",
        },
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    vit = load_model(tmp_path / "mine.safetensors")
    assert vit.labels == ("tench", "n2", "lion, king of beasts")
    assert vit.preprocessing.mean == (0.1, 0.2, 0.3)
    assert vit.preprocessing.crop_mode == "squash"
    assert vit.preprocessing.size == (96, 160)
    assert vit.trained_grids == ((6, 10),)
    assert vit.notes == ()


def test_a_configuration_of_another_architecture_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "resnet18", "mean": [9]}))
    path = write(tmp_path / "mine.safetensors", module())
    assert load_model(path, arch=ARCH).preprocessing.mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_become_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    model = module()
    vit = load_model(write(tmp_path / "mine.safetensors", model, dtype=dtype), arch=ARCH)
    assert vit.dtype == torch.float32
    assert same_answers(vit, model.to(dtype).float())


def test_the_size_follows_the_positions_of_the_file(tmp_path: Path) -> None:
    model = module(3, img_size=96)
    path = write(tmp_path / "mine.safetensors", model)
    vit = load_model(path, arch=ARCH)
    assert vit.preprocessing.size == (96, 96)
    assert vit.trained_grids == ((6, 6),)
    assert same_answers(vit, model, 96)


def test_another_size_resamples_and_remembers_the_trained_grid(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.safetensors", module(3, img_size=96))
    vit = load_model(path, arch=ARCH, size=(160, 128))
    assert vit.preprocessing.size == (160, 128)
    assert vit.trained_grids == ((6, 6),)


def test_positions_of_a_rectangle_need_the_size(tmp_path: Path) -> None:
    model = module(3, img_size=(96, 160))
    path = write(tmp_path / "mine.safetensors", model)
    with pytest.raises(ModelError, match="60 patches") as error:
        load_model(path, arch=ARCH)
    assert key_of(error) == "positions_not_square"
    vit = load_model(path, arch=ARCH, size=(96, 160))
    assert torch.equal(vit.module.pos_embed, model.pos_embed)
    assert vit.trained_grids == ((6, 10),)


def test_a_distilled_model(tmp_path: Path) -> None:
    arguments = {"embed_dim": 48, "depth": 2, "num_heads": 2, "num_classes": 4}
    with seeded(0):
        model = timm.create_model("deit_tiny_distilled_patch16_224", **arguments).eval()
    save_file(model.state_dict(), tmp_path / "mine.safetensors")
    config = {"architecture": "deit_tiny_distilled_patch16_224", "model_args": arguments}
    (tmp_path / "config.json").write_text(json.dumps(config))
    vit = load_model(tmp_path / "mine.safetensors")
    assert vit.classes == 4
    assert same_answers(vit, model, 224)


def test_wrong_shapes_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.safetensors", module(3, embed_dim=32))
    with pytest.raises(ModelError) as error:
        load_model(path, arch=ARCH)
    assert key_of(error) == "weights_unfit"
    assert "cls_token is 1×1×32 in the file and 1×1×64 in the model" in str(error.value)
    assert str(error.value).count("in the file and") == 3
    assert "more" in str(error.value)


def test_missing_and_unknown_weights_are_named(tmp_path: Path) -> None:
    tensors = module().state_dict()
    del tensors["norm.weight"]
    tensors["extra"] = torch.zeros(1)
    save_file(tensors, tmp_path / "mine.safetensors")
    with pytest.raises(ModelError) as error:
        load_model(tmp_path / "mine.safetensors", arch=ARCH)
    assert "norm.weight is missing from the file; extra is unknown to the model" in str(error.value)


def test_weights_of_another_family(tmp_path: Path) -> None:
    tensors = timm.create_model("test_resnet").state_dict()
    save_file(tensors, tmp_path / "mine.safetensors")
    with pytest.raises(ModelError, match=r"is missing from the file") as error:
        load_model(tmp_path / "mine.safetensors", arch=ARCH)
    assert key_of(error) == "weights_unfit"


def test_patches_of_another_size(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.safetensors", module(3, patch_size=8, img_size=80))
    with pytest.raises(ModelError, match="patches of 8×8 pixels") as error:
        load_model(path, arch=ARCH)
    assert key_of(error) == "weights_patch"
