"""Training: exact resume, the same by seed and in two processes, fine-tuning, bad input."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from explainers import ModelError, load_model, load_photo, wrap_model
from explainers.models.preprocessing import Preprocessing
from explainers.models.reference_file import grid_of, new_reference, resampled
from tests.tiny import seeded, tiny_photo_array, tiny_vit
from training.__main__ import main
from training.arguments import parse, plan_of
from training.batches import augmented, epoch_batches, normalised, windows
from training.data import read_data, read_split
from training.errors import TrainingError
from training.loop import Run, evaluate
from training.models import fine_tuned, new_learner, replace_head
from training.plan import Plan, optimiser
from training.saving import MODEL, STATE, save_model

ROOT = Path(__file__).resolve().parent.parent
CLASSES = ("blue", "green", "red")
SMALL: dict[str, Any] = {
    **{"image_size": 8, "patch_size": 4, "width": 16, "depth": 2, "heads": 2, "mlp_width": 16}
}
FLAGS = [w for key, value in SMALL.items() for w in (f"--{key.replace('_', '-')}", str(value))]
PLAN = Plan(epochs=3, batch=8, rate=3e-3, warmup=2, dropout=0.1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noisy pictures of 8 × 8 pixels whose colour is their class: 16 to train, 4 to test each."""
    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("colours")
    for split, count in (("train", 16), ("test", 4)):
        for channel, name in ((2, "blue"), (1, "green"), (0, "red")):
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 150, (8, 8, 3), dtype=np.uint8)
                pixels[..., channel] += 60
                Image.fromarray(pixels).save(folder / split / name / f"{number:02}.png")
    return folder


def run_of(data: Path, out: Path, plan: Plan = PLAN, **more: Any) -> Run:
    arguments = {**SMALL, "dropout": plan.dropout}
    learner = new_learner("reference_vit", arguments, CLASSES, plan.seed)
    return Run(learner, read_data(data), plan, out, quiet=True, **more)


def curve(out: Path) -> list[list[str]]:
    """history.csv without its seconds."""
    with (out / "history.csv").open(encoding="utf-8") as file:
        return [row[:-1] for row in csv.reader(file)]


def alike(one: Path, other: Path) -> bool:
    """Whether two files hold the same weights, to the last bit."""
    ours, theirs = load_file(one), load_file(other)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def words(data: Path, out: Path, *more: str, command: str = "train") -> list[str]:
    flags = FLAGS if command == "train" else []
    start = [command, "--data", str(data), "--out", str(out), "--quiet", "--batch", "8"]
    return [*start, *flags, "--warmup", "2", *more]


def refused(caplog: pytest.LogCaptureFixture, argv: list[str]) -> str:
    """The one sentence that a command is refused with."""
    caplog.clear()
    assert main(argv) == 2
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    return record.getMessage()


# -- data and batches ------------------------------------------------------------------------


def test_a_folder_and_its_archive_are_read_alike(data: Path, tmp_path: Path) -> None:
    packed = tmp_path / "colours.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(data, "some/where")
    for ours, theirs in zip(read_data(data), read_data(packed), strict=True):
        assert ours.classes == theirs.classes == CLASSES
        assert torch.equal(ours.targets, theirs.targets)
        pairs = zip(ours.photos, theirs.photos, strict=True)
        assert all(np.array_equal(a.pixels, b.pixels) for a, b in pairs)
    assert read_split(packed, "train", 7).targets.tolist() == [0, 0, 1, 1, 2, 2]


def test_pixels_are_those_the_model_will_be_given(data: Path) -> None:
    images = read_split(data, "test")
    prepare = Preprocessing((12, 12), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    ours = normalised(windows(images, range(3), prepare), prepare)
    torch.testing.assert_close(ours, torch.stack([prepare(p) for p in images.photos[:3]]))


def test_augmentation_moves_and_mirrors() -> None:
    pixels = torch.arange(2 * 8 * 8 * 3).reshape(2, 8, 8, 3).to(torch.uint8)
    same = torch.tensor([[0.5, 0.5, 0.9], [0.5, 0.5, 0.1]])  # the middle of 0..2 is no move
    out = augmented(pixels, same, 0.125)
    assert torch.equal(out[0], pixels[0])
    assert torch.equal(out[1], pixels[1].flip(1))
    moved = augmented(pixels[:1], torch.tensor([[0.0, 0.999, 0.9]]), 0.125)[0]
    assert (moved[0] == 0).all()  # a row of border above, one column lost at the left
    assert (moved[:, -1] == 0).all()
    assert torch.equal(moved[1:, :-1], pixels[0, :-1, 1:])


def test_every_epoch_has_an_order_of_its_own() -> None:
    first, second = (torch.cat(epoch_batches(10, 4, 0, epoch)) for epoch in (0, 1))
    assert len(set(first.tolist())) == 8  # two full batches; two images wait for another epoch
    assert not torch.equal(first, second)
    assert torch.equal(first, torch.cat(epoch_batches(10, 4, 0, 0)))


def test_rate_warms_up_and_falls_along_a_cosine() -> None:
    plan = Plan(rate=1.0, warmup=4, final_rate=0.1)
    rates = [plan.rate_at(step, 104) for step in range(105)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[54] == pytest.approx(0.55)  # half-way down
    assert rates[104] == pytest.approx(0.1)
    assert sorted(rates[3:], reverse=True) == rates[3:]


def test_only_matrices_decay() -> None:
    learner = new_learner("reference_vit", SMALL, CLASSES, 0)
    decayed, others = optimiser(learner.module, Plan()).param_groups
    assert decayed["weight_decay"] == 0.05
    assert others["weight_decay"] == 0
    names = {id(p): name for name, p in learner.module.named_parameters()}
    kept = {names[id(p)] for p in others["params"]}
    assert {"cls_token", "positions.table", "norm.weight", "head.bias"} <= kept
    assert {names[id(p)] for p in decayed["params"]} >= {"head.weight", "blocks.0.mlp.rise.weight"}


# -- training ---------------------------------------------------------------------------------


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


# -- fine-tuning -------------------------------------------------------------------------------


def test_a_new_head_of_vit_b16_has_7690_parameters() -> None:
    with torch.device("meta"):
        module = timm.create_model("vit_base_patch16_224")
        replace_head(module, 10)
    module.requires_grad_(False)
    module.head.requires_grad_(True)
    assert sum(p.numel() for p in module.parameters() if p.requires_grad) == 7_690
    with torch.device("meta"):
        twin = new_reference("reference_vit", {"head": "hidden"})
        twin.model_args = {"head": "hidden"}
        replace_head(twin, 10)
    assert sum(p.numel() for p in twin.head.parameters()) == 7_690


def test_a_distilled_model_gets_two_heads() -> None:
    learner = fine_tuned(wrap_model(tiny_vit(distilled=True, dtype=torch.float32)), CLASSES, True)
    assert learner.trained_parameters() == 2 * (16 * 3 + 3)


@pytest.mark.parametrize("backbone", ["frozen", "all"])
def test_what_learns(data: Path, tmp_path: Path, backbone: str) -> None:
    vit = wrap_model(tiny_vit(dtype=torch.float32))
    before = {name: value.clone() for name, value in vit.module.state_dict().items()}
    learner = fine_tuned(vit, CLASSES, backbone == "frozen")
    assert not learner.module.head.weight.any()
    assert learner.preprocessing.crop_pct == 1
    with torch.no_grad():
        assert not learner.module(torch.randn(2, 3, 16, 16)).any()
    head = 16 * 3 + 3
    assert (learner.trained_parameters() == head) == (backbone == "frozen")
    Run(learner, read_data(data), replace(PLAN, epochs=1), tmp_path, quiet=True).fit()
    after = learner.module.state_dict()
    moved = {name for name in before if not name.startswith("head")}
    moved = {name for name in moved if not torch.equal(before[name], after[name])}
    assert after["head.weight"].any()
    assert bool(moved) == (backbone == "all")


@pytest.mark.parametrize("size", [8, 16])
def test_a_checkpoint_is_fine_tuned_at_its_own_and_a_higher_size(
    data: Path, tmp_path: Path, size: int
) -> None:
    run_of(data, tmp_path / "base", replace(PLAN, epochs=1)).fit()
    model = str(tmp_path / "base" / MODEL)
    out = tmp_path / "tuned"
    more = ("--model", model, "--size", str(size), "--epochs", "1")
    assert main(words(data, out, *more, command="finetune")) == 0
    base, tuned = load_file(model), load_file(out / MODEL)
    same = torch.equal(base["positions.table"], tuned["positions.table"]) if size == 8 else False
    assert same == (size == 8)
    assert torch.equal(base["blocks.1.mlp.rise.weight"], tuned["blocks.1.mlp.rise.weight"])
    vit = load_model(out / MODEL, device="cpu")
    assert vit.preprocessing.size == (size, size)
    assert vit.trace(load_photo(tiny_photo_array())).grid == (size // 4, size // 4)
    argv = ["evaluate", "--data", str(data), "--model", str(out / MODEL)]
    assert main(argv) == 0


@pytest.mark.parametrize("trained", [(8, 8), (8, 12)])
def test_timm_models_are_saved_so_that_they_open_again(
    tmp_path: Path, trained: tuple[int, int]
) -> None:
    arguments = {"patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2, "reg_tokens": 1}
    with seeded(0):
        module = timm.create_model("vit_tiny_patch16_224", img_size=trained, **arguments).eval()
    learner = fine_tuned(wrap_model(module), CLASSES, frozen=False)
    nn.init.normal_(learner.module.head.weight)
    save_model(tmp_path / MODEL, learner, {})
    for size in (None, (16, 12)) if trained == (8, 8) else (None,):
        vit = load_model(tmp_path / MODEL, size=size, device="cpu")
        assert vit.labels == CLASSES
        assert vit.preprocessing == replace(learner.preprocessing, size=size or trained)
    pixels = torch.randn(2, 3, *trained)
    with torch.no_grad():
        answer = load_model(tmp_path / MODEL, device="cpu").module(pixels)
        assert torch.equal(answer, learner.module(pixels))


@pytest.mark.parametrize("kind", ["1d", "2d", "relative", "none", "concise"])
def test_positions_are_interpolated_in_two_dimensions(kind: str) -> None:
    arguments: dict[str, Any] = {**SMALL, "image_size": (12, 20)}
    name = "concise_vit" if kind == "concise" else "reference_vit"
    if kind != "concise":
        arguments["positions"] = kind
    with seeded(0):
        small = new_reference(name, arguments)
        large = new_reference(name, {**arguments, "image_size": (24, 40)})
    same = resampled(small, small)
    assert all(torch.equal(value, same[key]) for key, value in small.state_dict().items())
    assert (grid_of(small), grid_of(large)) == ((3, 5), (6, 10))
    large.load_state_dict(resampled(small, large))
    assert large.eval()(torch.randn(1, 3, 24, 40)).isfinite().all()
    if kind in ("1d", "concise"):
        key = "pos_embed" if kind == "concise" else "positions.table"
        ours, theirs = large.state_dict()[key], small.state_dict()[key]
        resample = timm.layers.resample_abs_pos_embed
        assert torch.equal(ours, resample(theirs, [6, 10], [3, 5], num_prefix_tokens=1))
        assert torch.equal(ours[:, 0], theirs[:, 0])
    if kind == "relative":
        ours, theirs = large.positions.table, small.positions.table
        assert torch.equal(ours[-3:], theirs[-3:])
        centre = ours[:-3].unflatten(0, (11, 19))[5, 9], theirs[:-3].unflatten(0, (5, 9))[2, 4]
        torch.testing.assert_close(*centre)


# -- flags and refusals ------------------------------------------------------------------------


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
