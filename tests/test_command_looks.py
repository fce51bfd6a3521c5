"""The command line at other sizes: a whole photo at a long side, its own size, windows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from explainers.__main__ import main
from explainers.render.npz import read_npz
from tests.command_line import photo, save_model


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("weights") / "tiny")


def run(weights: Path, tmp_path: Path, *given: str) -> tuple[int, Path]:
    picture = photo(tmp_path / "photos" / "a.png", 1, (40, 61))
    out = tmp_path / "maps"
    asked = ["explain", str(picture), "--model", str(weights), "--out", str(out), *given]
    return main([*asked, "--methods", "rollout,relevance", "--format", "both"]), out


def row(out: Path) -> dict[str, str]:
    with (out / "index.csv").open(encoding="utf-8") as file:
        return next(csv.DictReader(file))


@pytest.mark.parametrize(
    ("given", "grid"),
    [(["--long-side", "32"], (5, 8)), (["--size", "native"], (10, 15))],
)
def test_the_whole_photo_is_looked_at(
    weights: Path, tmp_path: Path, capsys: Any, given: list[str], grid: tuple[int, int]
) -> None:
    code, out = run(weights, tmp_path, *given)
    assert code == 0
    rows, columns = grid
    tokens = rows * columns + 1
    said = capsys.readouterr().err
    assert f"a.png: {rows}×{columns} patches: N = {tokens} tokens, N² = {tokens**2:,}; " in said
    found = read_npz(out / "a.png.rollout.npz")
    assert found["values"].shape == grid
    assert found["provenance"]["preprocessing"]["crop_mode"] == "squash"
    assert row(out)["maps"]
    assert run(weights, tmp_path, *given)[0] == 0
    assert "1 finished before" in capsys.readouterr().out


def test_windows_are_separate_looks(weights: Path, tmp_path: Path, capsys: Any) -> None:
    code, out = run(weights, tmp_path, "--windows")
    assert code == 0
    assert "windows of 4×4 patches: N = 17 tokens each, N² = 289; together" in (
        capsys.readouterr().err
    )
    found = read_npz(out / "a.png.relevance.npz")
    count = len(found["provenance"]["windows"]["first_cells"])
    assert found["about"]["title"].endswith(f"{count} separate looks")
    with Image.open(out / "a.png.relevance.png") as picture:
        assert picture.size == (61, 40)
    # another look is other work: nothing counts as finished
    run(weights, tmp_path, "--windows", "--long-side", "50")
    assert "1 explained, 0 finished before" in capsys.readouterr().out


def test_a_look_that_does_not_fit_into_memory_is_refused(
    weights: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explainers.memory_limit.free_bytes", lambda device: 200_000)
    code, out = run(weights, tmp_path, "--long-side", "4000")
    assert code == 3
    assert "the largest that fits is a long side of" in row(out)["error"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--size", "16", "--long-side", "32"], "each choose the size"),
        (["--windows", "--measure"], "no one answer to measure"),
        (["--long-side", "many"], "expected a number of pixels"),
        (["--size", "naive"], "or native; got 'naive'"),
    ],
)
def test_what_does_not_go_together_is_refused(
    weights: Path, tmp_path: Path, capsys: Any, given: list[str], said: str
) -> None:
    assert run(weights, tmp_path, *given)[0] == 2
    assert said in capsys.readouterr().err


def test_quiet_says_no_forecast(weights: Path, tmp_path: Path, capsys: Any) -> None:
    run(weights, tmp_path, "--long-side", "32", "--quiet")
    assert "tokens" not in capsys.readouterr().err
