"""Loading models: the embedded one, weights files of every shape, labels and heads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from explainers.models import head_labels, loading
from explainers.models.errors import ModelError
from explainers.models.labels import imagenet_labels
from explainers.models.loading import load_model
from explainers.models.recipe import Recipe
from explainers.models.reference_file import new_reference
from explainers.models.vision_model import VisionModel
from explainers.models.wrapping import wrap_model
from tests.tiny import seeded

ARCH = "test_vit"  # timm's own: 160 pixels in 16-pixel patches, width 64, 6 blocks


def module(classes: int = 3, **arguments: Any) -> torch.nn.Module:
    with seeded(1):
        return timm.create_model(ARCH, num_classes=classes, **arguments).eval()


def write(
    path: Path,
    model: torch.nn.Module,
    prefix: str = "",
    dtype: torch.dtype = torch.float32,
    **metadata: str,
) -> Path:
    tensors = {prefix + k: v.to(dtype) for k, v in model.state_dict().items()}
    save_file(tensors, path, metadata)
    return path


def same_answers(vit: VisionModel, model: torch.nn.Module, size: int = 160) -> bool:
    pixels = torch.rand(2, 3, size, size)
    with torch.inference_mode():
        return torch.equal(vit.logits(pixels), model(pixels))


def key_of(error: pytest.ExceptionInfo[ModelError]) -> str:
    return error.value.args[0].key


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
