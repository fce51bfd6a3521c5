"""`python -m explainers explain` again: what is finished is kept, and the rest is gone on with."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import fcntl
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from explainers.command import work as work_module
from explainers.command.index import COLUMNS
from explainers.command.results import results_folder
from explainers.methods.explain import explain
from tests.command_line import Run, folder, made, out, passes, photo, rows, run, weights
from tests.conftest import ROOT


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
