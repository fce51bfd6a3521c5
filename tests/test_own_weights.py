"""A stranger's own weights: five classes, a head of their own, explained from the command line."""

from __future__ import annotations

import csv
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from explainers import explain, load_model, load_photo, wrap_model
from explainers.__main__ import main
from explainers.models.errors import ModelError
from explainers.render.npz import read_npz
from tests.own_weights import ARCH, COLOURS, coloured, fine_tuned, write_files


@pytest.fixture(scope="module")
def trained() -> Any:
    return fine_tuned()


def saved(path: Path, model: nn.Module, rename: dict[str, str] | None = None) -> Path:
    """The weights in a file, beginnings of their names replaced."""
    tensors = {}
    for name, value in model.state_dict().items():
        for old, new in (rename or {}).items():
            name = new + name.removeprefix(old) if name.startswith(old) else name
        tensors[name] = value
    save_file(tensors, path)
    return path


def test_explained_from_the_command_line(trained: Any, tmp_path: Path) -> None:
    weights, labels, photo = write_files(tmp_path, trained)
    out = tmp_path / "maps"
    options = ["--model", str(weights), "--arch", ARCH, "--labels", str(labels)]
    chosen = ["--methods", "rollout,saliency", "--format", "npz", "--out", str(out), "--quiet"]
    assert main(["explain", str(photo), *options, *chosen]) == 0
    with (out / "index.csv").open(encoding="utf-8") as lines:
        (row,) = csv.DictReader(lines)
    assert row["class_1"] == "plum"
    assert float(row["probability_1"]) > 0.9
    vit = load_model(weights, arch=ARCH, labels=labels)
    trace = vit.trace(load_photo(photo))
    with torch.inference_mode():
        assert torch.allclose(vit.logits(trace.pixels), trained(trace.pixels), atol=1e-6)
    files = sorted(out.rglob("*.npz"))
    assert len(files) == 2
    for path in files:
        found = read_npz(path)["values"]
        assert np.isfinite(found).all()
    expected = explain("saliency", trace, target="plum").values
    assert np.array_equal(read_npz(files[1])["values"], expected)


@pytest.mark.parametrize("place", ["head.1", "classifier", "heads.head", "fc", "odd.name.of.it"])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_one_linear_head_of_any_name(trained: Any, tmp_path: Path, place: str, prefix: str) -> None:
    path = tmp_path / "mine.safetensors"
    save_file(
        {
            prefix + (place + name.removeprefix("head.1") if name.startswith("head.1") else name): v
            for name, v in trained.state_dict().items()
        },
        path,
    )
    vit = load_model(path, arch=ARCH, labels=list(COLOURS))
    assert vit.classes == 5
    pixels = vit.prepare([load_photo(coloured("moss", 3))])[0]
    with torch.inference_mode():
        assert torch.equal(vit.logits(pixels), trained(pixels))
    assert [note.key for note in vit.notes] == ["head_renamed"]
    assert place in str(vit.notes[0])


def test_a_head_of_several_layers_is_refused_in_words(trained: Any, tmp_path: Path) -> None:
    heads = {
        "two": nn.Sequential(OrderedDict(a=nn.Linear(64, 8), b=nn.Linear(8, 5))),
        "norm": nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 5)),
    }
    own, linear = trained.state_dict(), trained.head
    try:
        for name, head in heads.items():
            trained.head = head
            path = saved(tmp_path / f"{name}.safetensors", trained)
            with pytest.raises(ModelError, match="wrap_model") as error:
                load_model(path, arch=ARCH)
            assert "head." in str(error.value)
            assert wrap_model(trained, labels=list(COLOURS)).classes == 5
    finally:
        trained.head = linear
    broken = {k: v for k, v in own.items() if k != "norm.weight"}
    save_file(broken, tmp_path / "broken.safetensors")
    with pytest.raises(ModelError, match=r"norm\.weight is missing from the file; head"):
        load_model(tmp_path / "broken.safetensors", arch=ARCH)


def test_a_replaced_head_counts_its_own_classes(trained: Any) -> None:
    vit = wrap_model(trained, labels=list(COLOURS))  # num_classes still says 1000
    assert trained.num_classes == 1000
    assert vit.classes == 5
    trace = vit.trace(load_photo(coloured("navy", 5)))
    assert trace.top(1)[0][1] == "navy"
    heat = explain("legrad", trace, target="navy")
    assert heat.values.shape == (10, 10)


def test_labels_as_json_and_a_configuration_beside(trained: Any, tmp_path: Path) -> None:
    path = saved(tmp_path / "mine.safetensors", trained, {"head.1": "head"})
    (tmp_path / "labels.json").write_text(json.dumps(dict(enumerate(COLOURS))))
    (tmp_path / "config.json").write_text(json.dumps({"architecture": ARCH, "num_classes": 5}))
    vit = load_model(path, labels=tmp_path / "labels.json")
    assert vit.labels == tuple(COLOURS)
    assert vit.notes == ()


def test_a_pickle_opens_from_the_command_line_only(
    trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.pth"
    torch.save(trained.state_dict(), path)
    _, labels, photo = write_files(tmp_path, trained)
    options = ["--arch", ARCH, "--labels", str(labels), "--out", str(tmp_path / "out")]
    arguments = ["explain", str(photo), "--model", str(path), *options, "--methods", "attention"]
    assert main(arguments) == 0
    with pytest.raises(ModelError, match="is a pickle"):  # as the page loads it
        load_model(path, arch=ARCH)
