"""`python -m explainers`, as somebody at a terminal meets it."""

from __future__ import annotations

import csv
import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from explainers import load_model, load_photo
from explainers.__main__ import main
from explainers.command import work as work_module
from explainers.command.index import COLUMNS, Index
from explainers.command.photos import find_photos
from explainers.command.results import results_folder
from explainers.command.sheets import ROWS
from explainers.command.summary import confused, lines
from explainers.command.terminal import download_bar
from explainers.command.true_classes import TrueClasses
from explainers.heatmap import HeatMap
from explainers.measures import measure
from explainers.methods.explain import explain
from explainers.models.errors import ModelError
from explainers.models.labels import imagenet_labels
from explainers.models.vision_model import VisionModel
from explainers.models.wrapping import wrap_model
from explainers.registry import DEFAULT_METHODS, methods
from explainers.render.npz import read_npz
from tests.conftest import ROOT
from tests.tiny import DEPTH, HEADS, LABELS, PATCH, WIDTH, tiny_photo_array, tiny_vit

Run = Callable[..., int]


def save_model(folder: Path, classes: int = len(LABELS), labels: bool = True) -> Path:
    """A tiny model as a weights file with a config.json beside it."""
    folder.mkdir()
    arguments = {
        "img_size": 16,
        "patch_size": PATCH,
        "embed_dim": WIDTH,
        "depth": DEPTH,
        "num_heads": HEADS,
        "num_classes": classes,
    }
    config = {
        "architecture": "vit_tiny_patch16_224",
        "model_args": arguments,
        "input_size": [3, 16, 16],
        "num_classes": classes,
    }
    if labels:
        config["label_names"] = list(LABELS)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tiny_vit(num_classes=classes).float().state_dict(), folder / "tiny.safetensors")
    return folder / "tiny.safetensors"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("weights") / "tiny")


def photo(path: Path, seed: int = 0, size: tuple[int, int] = (18, 24)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(tiny_photo_array(*size, seed=seed)).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four photos, in folders named as a class, and one in none."""
    root = tmp_path / "photos"
    photo(root / "tabby" / "a.png", 1)
    photo(root / "tabby" / "b.png", 2)
    photo(root / "espresso" / "a.png", 3)
    photo(root / "elsewhere" / "a.png", 4)
    return root


@pytest.fixture
def run(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`explain` with the tiny model into tmp_path/out, one quick method unless told."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, model: object = weights) -> int:
        given = [str(argument) for argument in arguments]
        if "--methods" not in given:
            given += ["--methods", "rollout"]
        if "--out" not in given:
            given += ["--out", str(tmp_path / "out")]
        return main(["explain", *given, "--model", str(model)])

    return call


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of photos in every pass of any model."""
    counted: list[int] = []
    plain = VisionModel.logits

    def logits(self: VisionModel, pixels):  # type: ignore[no-untyped-def]
        counted.append(len(pixels))
        return plain(self, pixels)

    monkeypatch.setattr(VisionModel, "logits", logits)
    return counted


def rows(out: Path) -> dict[str, dict[str, str]]:
    with open(out / "index.csv", encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def made(out: Path) -> list[str]:
    """All files below a folder, by their paths from it."""
    return sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())


# -- one run ------------------------------------------------------------------------------------


def test_a_folder_gives_maps_index_sheet_and_accuracy(
    run: Run, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = made(folder)
    assert run(folder, "--methods", ",".join(DEFAULT_METHODS)) == 0
    photos = ["elsewhere/a.png", "espresso/a.png", "tabby/a.png", "tabby/b.png"]
    table = rows(out)
    assert list(table) == photos
    for file, row in table.items():
        maps = [f"{file}.{method}.png" for method in DEFAULT_METHODS]
        assert row["maps"] == " | ".join(maps)
        for path in maps:
            assert Image.open(out / path).size == (24, 18)
        shares = [float(row[f"probability_{rank}"]) for rank in range(1, 6)]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert {row[f"class_{rank}"] for rank in range(1, 6)} == set(LABELS)
        assert row["target"] == row["class_1"]
        assert row["error"] == row["against"] == ""
    assert table["tabby/a.png"]["true_class"] == LABELS[0]
    assert table["tabby/a.png"]["true_index"] == "0"
    assert table["elsewhere/a.png"]["true_class"] == table["elsewhere/a.png"]["correct"] == ""
    right = sum(row["correct"] == "top-1" for row in table.values())
    said = capsys.readouterr()
    assert f"top-1 {right / 3:.1%} ({right} of 3)".replace("%", " %") in said.out
    assert "top-5 100.0 % (3 of 3)" in said.out
    assert "Traceback" not in said.err
    assert "%|" not in said.err, "a progress bar in what is no terminal"
    sheet = Image.open(out / "contact_sheet.png")
    assert sheet.width > 5 * 200
    assert made(folder) == before, "the photos' folder was touched"


def test_rows_and_maps_are_the_librarys_own(
    run: Run, folder: Path, out: Path, weights: Path
) -> None:
    options = ("--format", "npz", "--methods", "occlusion,rollout", "--target", "teapot")
    assert run(folder, *options, "--set", "occlusion.window=2") == 0
    trace = load_model(weights).trace(load_photo(folder / "tabby" / "b.png"))
    row = rows(out)["tabby/b.png"]
    for rank, (index, label, probability) in enumerate(trace.top(5), 1):
        assert row[f"index_{rank}"] == str(index)
        assert row[f"class_{rank}"] == label
        assert float(row[f"probability_{rank}"]) == pytest.approx(probability, abs=1e-5)
    assert row["target"] == "teapot"
    heat = explain("occlusion", trace, target=4, window=2)
    stored = read_npz(out / "tabby" / "b.png.occlusion.npz")
    np.testing.assert_allclose(stored["values"], heat.values, atol=1e-5)
    assert stored["provenance"]["parameters"]["window"] == 2
    assert stored["about"]["target"]["index"] == 4
    rollout = read_npz(out / "tabby" / "b.png.rollout.npz")["values"]
    np.testing.assert_allclose(rollout, explain("rollout", trace).values, atol=1e-5)
    sheet = Image.open(out / "contact_sheet.png")
    assert len({pixel for _, pixel in sheet.getcolors(1 << 20) or []}) > 100, "no maps on it"


def test_target_true_and_against(run: Run, folder: Path, out: Path) -> None:
    options = ("--methods", "saliency,rollout", "--target", "true", "--against", "tabby")
    assert run(folder, *options) == 0
    table = rows(out)
    assert table["espresso/a.png"]["target"] == "espresso"
    assert table["espresso/a.png"]["against"] == LABELS[0]
    assert "saliency" in table["espresso/a.png"]["maps"]
    itself = table["tabby/a.png"]  # the true class is the contrast
    assert itself["maps"] == "tabby/a.png.rollout.png"
    assert "--against" in itself["notes"]
    unknown = table["elsewhere/a.png"]
    assert unknown["target"] == unknown["class_1"]
    assert "No folder names the true class" in unknown["notes"]


def test_only_wrong_photos_get_maps(
    run: Run, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for said in LABELS:  # one photo is right: it lies in a folder of what the model says
        photo(folder / said / "right.png", 7)
    assert run(folder, "--only-wrong") == 0
    table = rows(out)
    for row in table.values():
        assert bool(row["maps"]) == (row["correct"] in ("top-5", "no"))
    assert sum(row["correct"] == "top-1" for row in table.values()) >= 1
    assert any(row["maps"] for row in table.values())
    assert "not known whether the answer is wrong" in table["elsewhere/a.png"]["notes"]
    assert "(8 of 8)" in capsys.readouterr().out, "every photo counts for the accuracy"
    assert run(folder) == 0
    assert all(row["maps"] for row in rows(out).values()), "now the others get theirs"


def test_folders_that_are_no_class_are_named_and_no_map_is_promised(
    run: Run, tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("holidays", "garden"):
        photo(tmp_path / "mine" / folder / "a.png")
    assert run(tmp_path / "mine", "--target", "true", "--only-wrong") == 0
    said = capsys.readouterr()
    assert "2 photos: 2 explained, 0 finished before, 0 not done; 0 maps made." in said.out
    assert "Folders whose name is no class of the model (2):" in said.err
    assert {"  holidays", "  garden"} <= set(said.err.splitlines())
    for row in rows(out).values():
        assert "no map was made" in row["notes"]
        assert "is explained" not in row["notes"]


def test_both_formats_size_labels_and_columns(
    run: Run, folder: Path, out: Path, tmp_path: Path
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("eins\nzwei\ndrei\nvier\nfünf\n", encoding="utf-8")
    options = ("--format", "both", "--size", "12x20", "--labels", names, "--columns", "2")
    assert run(folder, *options) == 0
    row = rows(out)["tabby/a.png"]
    assert row["class_1"] in ("eins", "zwei", "drei", "vier", "fünf")
    assert row["maps"] == "tabby/a.png.rollout.png | tabby/a.png.rollout.npz"
    assert read_npz(out / "tabby" / "a.png.rollout.npz")["values"].shape == (3, 5)
    two = Image.open(out / "contact_sheet.png").width
    assert run(folder, *options[:-1], "1") == 0
    assert Image.open(out / "contact_sheet.png").width < two


def test_large_photos_get_pictures_of_1024_pixels(run: Run, tmp_path: Path, out: Path) -> None:
    assert run(photo(tmp_path / "large.jpg", size=(600, 1500))) == 0
    assert Image.open(out / "large.jpg.rollout.png").size == (1024, 410)


def test_a_weights_file_without_config_needs_arch(
    run: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "alone.safetensors"
    save_file({"head.weight": torch.zeros(5, 192)}, alone)
    assert run(folder, model=alone) == 2
    assert "--arch" in capsys.readouterr().err
    assert run(folder, "--arch", "vit_tiny_patch16_224", model=alone) == 2
    assert "missing from the file" in capsys.readouterr().err


def test_a_model_without_a_head(
    run: Run, folder: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headless = save_model(tmp_path / "headless", classes=0, labels=False)
    assert run(folder, "--methods", "rollout,saliency,occlusion", model=headless) == 0
    said = capsys.readouterr().err
    assert said.count("saliency is left out") == said.count("occlusion is left out") == 1
    assert all(row["maps"].endswith("rollout.png") for row in rows(out).values())
    assert all(row["class_1"] == "" for row in rows(out).values())
    assert run(folder, "--methods", "saliency", "--force", model=headless) == 2
    assert "None of the methods works" in capsys.readouterr().err
    assert run(folder, "--target", "tabby", model=headless) == 2
    assert "no classification head" in capsys.readouterr().err


# -- running again ------------------------------------------------------------------------------


def test_a_second_run_computes_nothing(
    run: Run, folder: Path, out: Path, passes: list[int]
) -> None:
    assert run(folder) == 0
    assert sum(passes) == 4 + 1, "each photo once, and the trial of the model"
    first = {file: (out / file).stat().st_mtime_ns for file in made(out) if file != "index.csv"}
    table = (out / "index.csv").read_bytes()
    passes.clear()
    assert run(folder) == 0
    assert passes == []
    assert (out / "index.csv").read_bytes() == table
    assert first == {
        file: (out / file).stat().st_mtime_ns for file in made(out) if file != "index.csv"
    }


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (lambda folder, out: photo(folder / "tabby" / "a.png", 9), 1),
        (lambda folder, out: photo(folder / "tabby" / "new.png", 9), 1),
        (lambda folder, out: (out / "tabby" / "b.png.rollout.png").unlink(), 1),
        (lambda folder, out: (folder / "tabby").rename(folder / "teapot"), 2),
    ],
    ids=["other bytes", "new photo", "map gone", "other class"],
)
def test_only_what_changed_is_explained_again(
    run: Run,
    folder: Path,
    out: Path,
    passes: list[int],
    change: Callable[[Path, Path], object],
    again: int,
) -> None:
    run(folder)
    passes.clear()
    change(folder, out)
    assert run(folder) == 0
    assert sum(passes) == again + 1


@pytest.mark.parametrize(
    "options",
    [
        ("--force",),
        ("--set", "rollout.discard=0.5"),
        ("--target", "espresso"),
        ("--against", "lion"),
        ("--format", "npz"),
        ("--size", "20"),
        ("--methods", "attention"),
    ],
    ids=" ".join,
)
def test_other_settings_explain_again(
    run: Run, folder: Path, passes: list[int], options: tuple[str, ...]
) -> None:
    run(folder)
    passes.clear()
    assert run(folder, *options) == 0
    assert sum(passes) >= 4


def test_an_interrupt_keeps_what_is_finished(
    run: Run,
    folder: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    passes: list[int],
) -> None:
    calls = []

    def interrupted(name: str, *arguments: object, **options: object) -> object:
        calls.append(name)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return explain(name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(work_module, "explain", interrupted)
    assert run(folder) == 130
    assert "goes on from there" in capsys.readouterr().err
    assert list(rows(out)) == ["elsewhere/a.png", "espresso/a.png"]
    passes.clear()
    assert run(folder) == 0
    assert sum(passes) == 2 + 1
    assert len(rows(out)) == 4


def test_a_kill_loses_at_most_one_photo(
    run: Run, folder: Path, out: Path, weights: Path, passes: list[int]
) -> None:
    program = """
import os, signal, sys
from explainers.command import work
from explainers.__main__ import main
plain, calls = work.explain, []
def explain(*given, **options):
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(*given, **options)
work.explain = explain
main(sys.argv[1:])
"""
    arguments = ["explain", folder, "--model", weights, "--out", out, "--methods", "rollout"]
    killed = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], cwd=ROOT, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(rows(out)) == 3
    with open(out / "index.csv", "ab") as file:
        file.write(b'tabby/b.png,0,"tabby cat, ta')  # what a kill in the write would leave
    assert run(folder) == 0
    assert sum(passes) == 1 + 1
    assert [len(row) for row in rows(out).values()] == [len(COLUMNS)] * 4


def test_an_interrupt_while_starting_is_no_traceback() -> None:
    for answer in ("Interrupted before anything was done.\n", None):
        arguments = ["-m", "explainers", "methods"]
        if answer is None:  # a program that imports the package
            arguments = ["-c", "import explainers"]
        process = subprocess.Popen(
            [sys.executable, "-X", "importtime", *arguments],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        # What it says waits to be read: a slow reader does not let it come to its end.
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        for line in process.stderr:
            if re.search(r"\| +numpy\b", line):  # torch comes later
                break
        process.send_signal(signal.SIGINT)
        said = [line for line in process.stderr if not line.startswith("import time:")]
        assert process.wait(60) == (130 if answer else -signal.SIGINT)
        assert ("Traceback" in "".join(said)) is (answer is None)
        assert answer is None or said == [answer]
        assert process.stdout is not None
        assert process.stdout.read() == ""
        process.stdout.close()
        process.stderr.close()


def test_two_runs_never_write_into_one_folder(
    run: Run, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with results_folder(out):
        assert run(folder) == 2
        assert "Another run is writing into" in capsys.readouterr().err
        assert made(out) == []
    assert run(folder) == 0
    assert len(rows(out)) == 4


# -- what stands in the way ---------------------------------------------------------------------


def test_a_map_whose_place_is_taken_is_named_and_the_others_are_made(
    run: Run, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "tabby" / "a.png.rollout.png").mkdir(parents=True)
    (out / "espresso").write_text("a file")
    assert run(folder) == 1
    said = capsys.readouterr()
    for file in ("tabby/a.png", "espresso/a.png"):
        place = str(out / f"{file}.rollout.png")
        assert f"  {file}: {place} cannot be written" in said.err
        assert rows(out)[file]["error"].count("cannot be written") == 1
        assert "choose another --out." in rows(out)[file]["error"]
    assert "2 explained, 0 finished before, 2 not done" in said.out
    assert ".saving-" not in said.err + "".join(made(out))
    (out / "tabby" / "a.png.rollout.png").rmdir()
    (out / "espresso").unlink()
    assert run(folder) == 0


@pytest.mark.parametrize("again", [False, True])
def test_a_contact_sheet_whose_place_is_taken_is_named(
    run: Run, folder: Path, out: Path, capsys: pytest.CaptureFixture[str], again: bool
) -> None:
    if again:
        assert run(folder) == 0
        (out / "contact_sheet.png").unlink()
    (out / "contact_sheet.png").mkdir(parents=True)
    (out / "contact_sheet_2.png").mkdir()
    capsys.readouterr()
    assert run(folder) == 1
    said = capsys.readouterr()
    assert f"{out / 'contact_sheet.png'} cannot be written (Is a directory); move" in said.err
    assert "4 photos" in said.out
    assert not [file for file in made(out) if file.endswith(".new")]
    assert len(rows(out)) == 4


def test_results_that_cannot_be_there_at_all(
    run: Run, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "file").touch()
    for place in ("/proc/x", folder / "file" / "x"):
        assert run(folder, "--out", place) == 2
        assert f"{place} cannot be written" in capsys.readouterr().err
    (out / "index.csv").mkdir(parents=True)
    assert run(folder) == 2
    assert f"{out / 'index.csv'} cannot be written (Is a directory)" in capsys.readouterr().err


def test_a_full_disk_ends_the_run_and_names_the_file(
    run: Run,
    folder: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(heat: HeatMap, path: Path, **options: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(path.with_name(".saving-x")))

    monkeypatch.setattr(HeatMap, "save", full)
    assert run(folder) == 1
    said = capsys.readouterr().err
    assert "Stopped: No space left on device" in said
    assert str(out / "elsewhere" / "a.png.rollout.png") in said


# -- what cannot be read ------------------------------------------------------------------------


def test_unreadable_photos_are_listed_and_not_fatal(
    run: Run, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tabby" / "empty.png").write_bytes(b"")
    (folder / "tabby" / "text.jpg").write_text("no picture")
    whole = (folder / "tabby" / "a.png").read_bytes()
    (folder / "tabby" / "torn.png").write_bytes(whole[: len(whole) // 3])
    assert run(folder) == 1
    table = rows(out)
    assert len(table) == 7
    said = capsys.readouterr()
    for name in ("empty.png", "text.jpg", "torn.png"):
        assert name in said.err
        assert name in table[f"tabby/{name}"]["error"]
        assert table[f"tabby/{name}"]["maps"] == ""
    assert "4 explained, 0 finished before, 3 not done" in said.out
    assert all(table[f"tabby/{name}"]["maps"] for name in ("a.png", "b.png"))
    photo(folder / "tabby" / "empty.png")
    assert run(folder) == 1
    assert rows(out)["tabby/empty.png"]["error"] == ""


def test_nothing_to_do(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty") == 3
    assert "No photo was found" in capsys.readouterr().err
    (tmp_path / "note.txt").write_text("no picture")
    assert run(tmp_path / "note.txt") == 3, "named, it is tried, and is no photo"


def test_a_map_that_fails_leaves_the_others(
    run: Run, folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(name: str, trace, **options: object) -> object:  # type: ignore[no-untyped-def]
        if name == "attention" and trace.photo.name == "b.png":
            raise ModelError("numbers that are not finite")
        return explain(name, trace, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(work_module, "explain", failing)
    assert run(folder, "--methods", "attention,rollout") == 1
    row = rows(out)["tabby/b.png"]
    assert row["error"] == "attention: numbers that are not finite"
    assert row["maps"] == "tabby/b.png.rollout.png"
    assert row["fingerprint"] == "", "it is tried again"


# -- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("photos", "--methods", "rollout,atention"), "no method 'atention'"),
        (("photos", "--methods", ","), "expected one of"),
        (("photos", "--set", "rollout.discard=2"), "0.0..0.99"),
        (("photos", "--set", "rollout.discord=0"), "has no setting 'discord'"),
        (("photos", "--set", "rollout.fusion"), "METHOD.SETTING=VALUE"),
        (("photos", "--set", "rollout.start_block=7"), "-3..2"),
        (("photos", "--set", "occlusion.window=2"), "not among the methods"),
        (("photos", "--size", "12x"), "expected pixels"),
        (("photos", "--size", "13"), "whole patches"),
        (("photos", "--columns", "0"), "from 1 to 99"),
        (("photos", "--format", "pdf"), "invalid choice"),
        (("photos", "--target", "cat"), "fits 2 classes"),
        (("photos", "--target", "7"), "from 0 to 4"),
        (("photos", "--against", "dog"), "No class is called"),
        (("photos", "--target", "lion", "--against", "3"), "the same class"),
        (("photos", "--only"), "unrecognized"),
        (("nowhere",), "no photo or folder nowhere"),
        ((), "required"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_arguments(
    run: Run,
    folder: Path,
    out: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert "Traceback" not in said.err
    assert not out.exists(), "nothing is written before the arguments are right"


def test_an_unknown_model(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, model="vit_tinny_patch16_224") == 2
    assert "vit_tinny_patch16_224" in capsys.readouterr().err


def test_the_results_folder_may_not_be_a_file_or_hold_another_index(
    run: Run, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out.write_text("a file")
    assert run(folder) == 2
    assert "is a file" in capsys.readouterr().err
    out.unlink()
    out.mkdir()
    (out / "index.csv").write_text("name,age\nAda,36\n")
    assert run(folder) == 2
    assert (out / "index.csv").read_text() == "name,age\nAda,36\n"


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--help"]) == 0
    said = capsys.readouterr().out
    for code in ("0 ", "1 ", "2 ", "3 ", "130 "):
        assert re.search(rf"^  {code}", said, re.MULTILINE)
    assert main(["--version"]) == 0


# -- names of files and classes -----------------------------------------------------------------


def test_measured_maps_have_their_areas_in_the_index(
    run: Run, folder: Path, out: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (folder, "--methods", "rollout,saliency", "--target", "teapot")
    assert run(*options) == 0
    assert list(rows(out)["tabby/a.png"]) == list(COLUMNS)
    capsys.readouterr()
    assert run(*options, "--measure") == 0, "a finished photo is measured all the same"
    said = capsys.readouterr().out
    trace = load_model(weights).trace(load_photo(folder / "tabby" / "b.png"))
    table = rows(out)
    row = table["tabby/b.png"]
    for name in ("rollout", "saliency"):
        heat = explain(name, trace, "teapot")
        for kind in ("deletion", "insertion"):
            found = measure(heat, trace, kind, target="teapot", full=True)
            mean, deviation = found.random_area
            for column, area in (
                (name, found.area),
                ("random", mean),
                ("random_sd", deviation),
                ("centre", found.centre.area),
            ):
                assert float(row[f"{kind}_{column}"]) == pytest.approx(area, abs=1e-5)
    mean = sum(float(row["deletion_rollout"]) for row in table.values()) / len(table)
    assert f"{mean:8.3f}" in said
    assert f"rollout ({len(table)} photos)" in said
    before = (out / "index.csv").read_bytes()
    assert run(*options, "--measure") == 0
    assert (out / "index.csv").read_bytes() == before
    assert run(*options) == 0, "an index with measures is gone on with"
    assert rows(out)["tabby/b.png"]["deletion_rollout"] == ""


def test_measures_need_classes(
    run: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headless = save_model(tmp_path / "headless", classes=0, labels=False)
    assert run(folder, "--measure", model=headless) == 2
    assert "no classification head" in capsys.readouterr().err


def test_same_names_never_meet(run: Run, tmp_path: Path, out: Path) -> None:
    photo(tmp_path / "one" / "a.png")
    photo(tmp_path / "two" / "a.png")
    photo(tmp_path / "two" / "a.jpg")
    assert run(tmp_path / "one", tmp_path / "two", tmp_path / "two" / "a.png") == 0
    files = ["one/a.png", "two/a.jpg", "two/a.png"]
    assert list(rows(out)) == files
    assert [f for f in made(out) if "rollout" in f] == [f"{file}.rollout.png" for file in files]


@pytest.mark.parametrize(
    "name",
    [
        "猫 and dog.png",
        "=1+1.png",
        "'-x.png",
        "@a | b.png",
        "l" * 240 + ".png",
        'a\nb,"c".png',
        "a\rb.png",
    ],
    ids=["unicode", "formula", "apostrophe", "separator", "long", "newline", "return"],
)
def test_odd_names(run: Run, tmp_path: Path, out: Path, passes: list[int], name: str) -> None:
    photo(tmp_path / "in" / name)
    assert run(tmp_path / "in") == 0
    with open(out / "index.csv", encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t"))]
    assert list(Index(out / "index.csv").rows) == [name]
    passes.clear()
    assert run(tmp_path / "in") == 0
    assert passes == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only Unicode names")
def test_names_that_are_no_unicode(run: Run, tmp_path: Path, out: Path) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    photo(tmp_path / "in" / name)
    assert run(tmp_path / "in") == 0
    assert b"caf\xe9.png" in (out / "index.csv").read_bytes()
    assert list(Index(out / "index.csv").rows) == [name]


def test_walking_finds_pictures_sorted_and_skips_hidden_ones_and_results(tmp_path: Path) -> None:
    root = tmp_path / "all"
    for name in ("b/x.JPG", "a/y.webp", ".hidden/z.png", "a/.z.png", "a/b/c.tif", "note.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for name in ("maps/a/y.webp.rollout.png", "a/y.webp.rollout.png", "a/alone.rollout.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "loop").symlink_to(root)
    (root / "linked").symlink_to(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "l.png").touch()
    found, closed = find_photos([str(root)], root / "maps")
    expected = ["a/alone.rollout.png", "a/b/c.tif", "a/y.webp", "b/x.JPG", "linked/l.png"]
    assert [photo.file for photo in found] == expected
    assert closed == []
    assert found[1].folders == ("b", "a", "all")
    (root / "contact_sheet_2.png").touch()
    inside, _ = find_photos([str(root)], root)
    assert "contact_sheet_2.png" not in [photo.file for photo in inside]


def test_results_among_the_photos(run: Run, folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert run(folder, "--out", folder) == 0
        assert len(rows(folder)) == 4
    assert (folder / "tabby" / "a.png.rollout.png").exists()


def test_folders_that_name_classes() -> None:
    classes = TrueClasses(wrap_model(tiny_vit(), labels=LABELS))
    for name, index in (
        ("tabby", 0),
        ("Persian_cat", 1),
        ("KING OF BEASTS", 3),
        ("lion, king of beasts", 3),
        ("4", 4),
        ("5", None),
        ("cat", None),
        ("images", None),
        ("n02123045", None),
        ("", None),
    ):
        assert classes.find([name]) == index, name
    assert classes.find(["images", "train", "lion"]) == 3


def test_wordnet_ids_of_imagenet_and_of_the_embedded_model(embedded: VisionModel) -> None:
    classes = TrueClasses(embedded)
    assert embedded.label(classes.find(["n02124075"]) or 0) == "Egyptian cat"
    vit = wrap_model(tiny_vit(num_classes=1000), labels=imagenet_labels(1000))
    classes = TrueClasses(vit)
    assert classes.find(["n01440764"]) == 0
    assert classes.find(["n02123045-tabby"]) == 281
    assert classes.find(["crane"]) is None, "two classes are called so"
    background = wrap_model(tiny_vit(num_classes=1001), labels=imagenet_labels(1001))
    assert TrueClasses(background).find(["n01440764"]) == 1


# -- the whole ----------------------------------------------------------------------------------


def answer(true: int, said: int, correct: str, name: str = "") -> dict[str, str]:
    labels = {0: "crane, bird", 1: "crane, machine", 2: "heron"}
    return {
        "true_index": str(true),
        "true_class": labels[true],
        "index_1": str(said),
        "class_1": labels[said],
        "correct": correct,
    }


def test_accuracy_and_confused_pairs() -> None:
    table = [
        *[answer(2, 2, "top-1")] * 5,
        *[answer(2, 0, "top-5")] * 3,
        answer(0, 1, "no"),
        {**answer(0, 0, ""), "true_index": "", "true_class": ""},
    ]
    assert confused(table) == [("heron", "crane (0)", 3), ("crane (0)", "crane (1)", 1)]
    said = lines(table)
    assert said[0] == "Accuracy: top-1 55.6 % (5 of 9), top-5 88.9 % (8 of 9)"
    assert said[2] == "     3  heron → crane (0)"
    assert lines(table[-1:]) == []
    many = [answer(0, 2, "no"), answer(2, 1, "no")]
    assert len(confused(many, most=1)) == 1


def test_confused_pairs_of_a_planted_folder(
    run: Run, folder: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(folder)
    said = rows(out)["tabby/a.png"]["class_1"]
    other = next(label for label in LABELS if label != said).split(",")[0]
    planted = folder.parent / "planted"
    for number in range(3):
        (planted / other).mkdir(parents=True, exist_ok=True)
        (planted / other / f"{number}.png").write_bytes((folder / "tabby/a.png").read_bytes())
    capsys.readouterr()
    assert run(planted) == 0
    printed = capsys.readouterr().out
    assert "top-1 0.0 % (0 of 3), top-5 100.0 % (3 of 3)" in printed
    assert f"     3  {other} → {said.split(',')[0]}" in printed


def test_many_photos_make_pages(run: Run, tmp_path: Path, out: Path) -> None:
    for number in range(ROWS + 1):
        photo(tmp_path / "many" / f"{number:02}.png", number)
    assert run(tmp_path / "many", "--columns", "1") == 0
    assert (out / "contact_sheet_2.png").exists()
    assert run(tmp_path / "many", "--columns", "2") == 0
    assert not (out / "contact_sheet_2.png").exists(), "a page of the earlier run stayed"


def test_photos_go_through_the_model_together(run: Run, tmp_path: Path, passes: list[int]) -> None:
    for number in range(10):
        photo(tmp_path / "many" / f"{number}.png", number)
    assert run(tmp_path / "many") == 0
    assert passes == [1, 8, 2], "the trial, and two batches"


# -- lists --------------------------------------------------------------------------------------


def test_methods_are_listed_from_their_declarations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    said = capsys.readouterr().out
    assert "about 1 forward pass\n" in said
    assert "about 1 forward passes" not in said
    for name, method in methods().items():
        assert name in said
        assert main(["methods", name]) == 0
        card = capsys.readouterr().out
        whole = " ".join(card.split())
        for text in (method.title, method.meaning, method.limits, method.paper, method.bibtex):
            assert " ".join(text.split()) in whole
        for parameter in method.parameters:
            assert f"{name}.{parameter.name}=" in card
            assert all(choice in card for choice in parameter.choices)
    assert main(["methods", "--markdown"]) == 0
    assert "```bibtex" in capsys.readouterr().out
    assert main(["methods", "rolout"]) == 2
    assert "no method 'rolout'" in capsys.readouterr().err


def test_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    said = capsys.readouterr().out
    assert "embedded\n      43 MB, comes with ViTScope" in said
    assert "to download" in said
    assert main(["models", "--search", "DISTILL"]) == 0
    found = capsys.readouterr().out
    assert "deit_tiny_distilled" in found
    assert "vit_base" not in found
    assert main(["models", "--search", "xyzzy"]) == 3


def test_a_download_shows_a_bar_for_each_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show = download_bar(quiet=False)
    for received, total in [(0, 0), (50, 100), (100, 100), (100, 100), (0, 10), (10, 10)]:
        show(received, total)
    said = capsys.readouterr().err
    assert "100%" in said
    assert "100/100" in said
    assert "10.0/10.0" in said
    download_bar(quiet=True)(1, 2)
    assert capsys.readouterr().err == ""


def test_a_missing_letter_of_the_terminal_is_no_error(
    run: Run, folder: Path, weights: Path
) -> None:
    """As a program of its own, on a terminal without Unicode."""
    arguments = ["explain", folder, "--model", weights, "--methods", "rollout", "--quiet"]
    (folder / "tabby").rename(folder / "Persian cat")
    ended = subprocess.run(
        [sys.executable, "-m", "explainers", *map(str, arguments), "--out", str(folder / "maps")],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert "4 photos: 4 explained" in ended.stdout
    assert ended.stderr == ""
