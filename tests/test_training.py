"""Training: exact resume, the same by seed and in two processes, and less memory."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file

from explainers import load_model, load_photo
from tests.colour_training import CLASSES, PLAN, data, run_of, words
from training.__main__ import main
from training.data import read_split
from training.loop import evaluate
from training.plan import Plan
from training.saving import MODEL

ROOT = Path(__file__).resolve().parent.parent


def curve(out: Path) -> list[list[str]]:
    """history.csv without its seconds."""
    with (out / "history.csv").open(encoding="utf-8") as file:
        return [row[:-1] for row in csv.reader(file)]


def alike(one: Path, other: Path) -> bool:
    """Whether two files hold the same weights, to the last bit."""
    ours, theirs = load_file(one), load_file(other)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def test_it_learns_and_leaves_a_model_that_can_be_explained(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(words(data, out, "--epochs", "20", "--rate", "0.01", "--no-augment")) == 0
    rows = curve(out)
    assert rows[0][:3] == ["epoch", "step", "rate"]
    assert float(rows[-1][3]) < float(rows[1][3]) / 2
    assert float(rows[-1][6]) > 0.9
    with Image.open(out / "curves.png") as picture:
        assert picture.width > picture.height
    vit = load_model(out / MODEL, device="cpu")
    assert vit.labels == CLASSES
    assert vit.preprocessing.mean == (0.5, 0.5, 0.5)
    assert vit.trained_grids == ((2, 2),)
    red = np.full((8, 8, 3), 75, np.uint8) + np.array([60, 0, 0], np.uint8)
    assert vit.trace(load_photo(red)).top(1)[0][1] == "red"
    found = evaluate(vit.module, read_split(data, "test"), vit.preprocessing)
    assert found["top1"] == pytest.approx(float(rows[-1][6]))
    assert found["loss"] == pytest.approx(float(rows[-1][5]), rel=1e-5)
    assert found["top5"] == 1
    with safe_open(out / MODEL, framework="pt") as file:
        assert {"architecture", "config", "training"} <= set(file.metadata())


def test_the_seed_decides_everything_and_no_generator_is_touched(
    data: Path, tmp_path: Path
) -> None:
    before = torch.random.get_rng_state()
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run_of(data, tmp_path / name, replace(PLAN, seed=seed)).fit()
    assert torch.equal(before, torch.random.get_rng_state())
    first, again, other = ((tmp_path / name / MODEL) for name in "abc")
    assert alike(first, again)
    assert curve(first.parent) == curve(again.parent) != curve(other.parent)


@pytest.mark.parametrize("step", [1, 6, 11])
def test_a_stopped_run_goes_on_to_the_same_curve(data: Path, tmp_path: Path, step: int) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run_of(data, whole).fit()
    run = run_of(data, broken, save_every=4)
    inner = run._step

    def stopping(*arguments: Any) -> None:
        if run.progress.step == step:
            raise KeyboardInterrupt
        inner(*arguments)

    run._step = stopping  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    again = run_of(data, broken)
    again.resume()
    assert again.progress.step == {1: 0, 6: 6, 11: 8}[step]  # 6 steps an epoch
    again.fit()
    assert curve(broken) == curve(whole)
    assert alike(broken / MODEL, whole / MODEL)


@pytest.mark.long
def test_a_killed_program_goes_on_to_the_same_curve(data: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    more = ("--epochs", "30", "--save-every", "1", "--dropout", "0.1")
    assert main(words(data, whole, *more)) == 0
    command = [sys.executable, "-m", "training", *words(data, broken, *more, "--resume")]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    program = subprocess.Popen(command, cwd=ROOT, env=environment)
    while not (broken / "history.csv").exists():
        assert program.poll() is None
        time.sleep(0.02)
    program.send_signal(signal.SIGKILL)
    assert program.wait() == -signal.SIGKILL
    assert len(curve(broken)) < 31
    assert subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0
    assert curve(broken) == curve(whole)


def test_checkpointing_changes_memory_not_numbers(data: Path, tmp_path: Path) -> None:
    plain, less = (
        run_of(data, tmp_path / str(flag), replace(PLAN, epochs=1, checkpointing=flag))
        for flag in (False, True)
    )
    assert plain.fit()[0]["train_loss"] == less.fit()[0]["train_loss"]
    vit = load_model(tmp_path / "True" / MODEL, device="cpu")
    for name, value in vit.module.state_dict().items():
        torch.testing.assert_close(value, plain.learner.module.state_dict()[name])


def test_bf16_learns_too(data: Path, tmp_path: Path) -> None:
    for flag in (False, True):
        plan = Plan(epochs=8, batch=8, rate=0.01, warmup=2, bf16=flag)
        history = run_of(data, tmp_path / str(flag), plan).fit()
        assert history[-1]["train_loss"] < 0.7 * history[0]["train_loss"]
    weights = load_file(tmp_path / "True" / MODEL)
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


@pytest.mark.long
def test_two_processes_learn_what_one_does(data: Path, tmp_path: Path) -> None:
    more = ("--epochs", "4", "--images", "42", "--device", "cpu")  # 5 steps an epoch
    assert main(words(data, tmp_path / "one", *more)) == 0
    command = [*("-m", "torch.distributed.run", "--standalone"), "--nproc-per-node", "2"]
    argv = words(data, tmp_path / "two", *more)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, *command, "-m", "training", *argv],
        **{"cwd": ROOT, "env": environment, "capture_output": True, "text": True},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one, two = (load_file(tmp_path / name / MODEL) for name in ("one", "two"))
    assert curve(tmp_path / "one")[-1][1] == "20"
    for name, value in one.items():
        differs = (two[name] - value).abs()
        if name.endswith("qkv.bias"):
            # A key's bias adds the same q·b to a whole row of scores, which softmax ignores: its
            # gradient is zero but for rounding, and AdamW scales any gradient up to its rate.
            differs = torch.cat([differs[:16], differs[32:]])
        assert differs.max() <= 1e-5, name
    models = [load_model(tmp_path / name / MODEL, device="cpu").module for name in ("one", "two")]
    pixels = torch.randn(4, 3, 8, 8)
    torch.testing.assert_close(models[0](pixels), models[1](pixels), rtol=0, atol=1e-5)
    for ours, theirs in zip(curve(tmp_path / "one")[1:], curve(tmp_path / "two")[1:], strict=True):
        assert [float(v) for v in ours] == pytest.approx([float(v) for v in theirs], abs=1e-4)
