"""`python -m explainers` and its arguments: wrong ones are named, lists and help are whole."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from explainers.__main__ import main
from explainers.command.terminal import download_bar
from explainers.registry import methods
from tests.command_line import Run, folder, out, run, weights
from tests.conftest import ROOT

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
