"""`python -m explainers explain` where places are taken, disks full, or photos and maps fail."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from explainers.command import work as work_module
from explainers.heatmap import HeatMap
from explainers.methods.explain import explain
from explainers.models.errors import ModelError
from tests.command_line import Run, folder, made, out, photo, rows, run, weights

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
