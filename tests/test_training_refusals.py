"""Training's flags, and data, classes and checkpoints that do not fit."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from explainers import ModelError, load_model
from tests.colour_training import PLAN, data, run_of, words
from training.__main__ import main
from training.arguments import parse, plan_of
from training.errors import TrainingError
from training.saving import MODEL, STATE


def refused(caplog: pytest.LogCaptureFixture, argv: list[str]) -> str:
    """The one sentence that a command is refused with."""
    caplog.clear()
    assert main(argv) == 2
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    return record.getMessage()


def test_a_yaml_file_holds_flags_and_flags_override_it(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    file = tmp_path / "run.yaml"
    file.write_text("data: d\nout: o\nepochs: 7\nrate: 2.0e-3\nbf16: true\naugment: false\n")
    options = parse(["train", "--config", str(file), "--epochs", "9", "--data", "e", "--out", "o"])
    plan = plan_of(options)
    assert (plan.epochs, plan.rate, plan.bf16, plan.augment) == (9, 2e-3, True, False)
    assert options.data == Path("e")
    assert parse(["train", "--config", str(file)]).data == Path("d")
    for text, said in (("epoch: 3", "nearest: epochs"), ("- a", "lines like"), (": :", "YAML")):
        file.write_text(text)
        with pytest.raises(TrainingError, match=said):
            parse(["train", "--config", str(file), "--data", "d", "--out", "o"])
    assert main(["train", "--nonsense"]) == 2


def test_data_that_are_missing_or_half_there(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    assert "There is no data at" in refused(caplog, words(tmp_path / "none", out))
    half = tmp_path / "half"
    (half / "train/cat").mkdir(parents=True)
    assert "train/cat of half holds no images" in refused(caplog, words(half, out))
    whole = (data / "train/red/00.png").read_bytes()
    (half / "train/cat/0.png").write_bytes(whole)
    assert "no images in test/CLASS/" in refused(caplog, words(half, out))
    (half / "test/dog").mkdir(parents=True)
    (half / "test/dog/0.png").write_bytes(whole)
    said = refused(caplog, words(half, out))
    assert "1 classes in train and 1 in test; cat, dog" in said
    (half / "test/dog").rename(half / "test/cat")
    (half / "train/cat/1.png").write_bytes(whole[:-60])
    said = refused(caplog, words(half, out))
    assert "train/cat/1.png of half is no whole image" in said
    packed = tmp_path / "colours.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(data, "colours")
    packed.write_bytes(packed.read_bytes()[:3000])
    assert "damaged or only half there" in refused(caplog, words(packed, out))
    (tmp_path / "notes.txt").write_text("no data")
    assert "neither a folder nor an archive" in refused(caplog, words(tmp_path / "notes.txt", out))
    assert "fewer than the 3 classes" in refused(caplog, words(data, out, "--images", "2"))
    assert "make --batch smaller" in refused(caplog, words(data, out, "--images", "6"))
    assert "--rate must be above 0" in refused(caplog, words(data, out, "--rate", "0"))
    assert "whole patches" in refused(caplog, words(data, out, "--patch-size", "3"))
    assert not out.exists()


def test_classes_and_checkpoints_that_do_not_fit(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_of(data, tmp_path / "run", replace(PLAN, epochs=1)).fit()
    model = tmp_path / "run" / MODEL
    test = ["evaluate", "--data", str(data), "--model"]
    assert "knows 200 classes and the data have 3" in refused(caplog, [*test, "embedded"])
    two = tmp_path / "two"
    for name, other in (("blue", "blue"), ("green", "green"), ("pink", "red")):
        (two / "test").mkdir(parents=True, exist_ok=True)
        (two / "test" / name).symlink_to(data / "test" / other)
    argv = ["evaluate", "--data", str(two), "--model", str(model)]
    assert "has no class 'pink'" in refused(caplog, argv)
    argv = [*test, str(model), "--arch", "vit_tiny_patch16_224"]
    assert "do not fit vit_tiny_patch16_224" in refused(caplog, argv)
    weights = load_file(model)
    with safe_open(model, framework="pt") as file:
        metadata = file.metadata()
    deeper = tmp_path / "deeper.safetensors"
    text = metadata["config"].replace('"depth": 2', '"depth": 3')
    save_file(weights, deeper, {**metadata, "config": text})
    with pytest.raises(ModelError, match=r"blocks\.2\.norm1\.weight is missing"):
        load_model(deeper)
    odd = metadata["config"].replace('"depth": 2', '"depht": 2')
    save_file(weights, deeper, {**metadata, "config": odd})
    with pytest.raises(ModelError, match="cannot be built with these settings"):
        load_model(deeper)


def test_a_run_is_not_overwritten_and_not_continued_with_other_settings(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    argv = words(data, tmp_path, "--epochs", "1")
    assert main(argv) == 0
    assert "holds a run already" in refused(caplog, argv)
    caplog.clear()
    said = [*argv, "--resume", "--width", "32"]
    assert main(said) == 2
    assert "had width = 16 and now has 32" in caplog.records[-1].getMessage()
    (tmp_path / STATE).write_bytes(b"half a file")
    caplog.clear()
    assert main([*argv, "--resume"]) == 2
    assert "no whole checkpoint" in caplog.records[-1].getMessage()


def test_a_loss_that_explodes_is_said(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exploded(module: nn.Module, pixels: Tensor) -> Tensor:
        return torch.full((len(pixels), 3), torch.nan) * module.head.weight.sum()  # type: ignore[operator, union-attr]

    run = run_of(data, tmp_path)
    monkeypatch.setattr(type(run.learner.module), "forward", exploded)
    with pytest.raises(TrainingError, match="The loss is nan at step 1"):
        run.fit()
