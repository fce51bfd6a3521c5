"""`python -m explainers explain`: maps, index, contact sheet, accuracy and measures of a folder."""

# ruff: noqa: F401, F402, F811 - fixtures are known by their names

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from explainers import load_model, load_photo
from explainers.command.index import COLUMNS
from explainers.measures import measure
from explainers.methods.explain import explain
from explainers.registry import DEFAULT_METHODS
from explainers.render.npz import read_npz
from tests.command_line import Run, folder, made, out, photo, rows, run, save_model, weights
from tests.tiny import LABELS

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


# -- measured maps ------------------------------------------------------------------------------


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
