"""The end of `python -m explainers explain`: accuracy, confused pairs, pages of photos."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

from pathlib import Path

import pytest

from explainers.command.sheets import ROWS
from explainers.command.summary import confused, lines
from tests.command_line import Run, folder, out, passes, photo, rows, run, weights
from tests.tiny import LABELS


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
