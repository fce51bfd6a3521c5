"""Photos of the embedded weights' recipe: Tiny ImageNet is read, crops are drawn."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from explainers import load_model
from explainers.models.preprocessing import Preprocessing
from tests.tiny_imagenet import PLAN, WNIDS, WORDS, data, tuned
from training.__main__ import main
from training.batches import cropped, generator, normalised, training_batch, windows
from training.data import read_data, read_split
from training.errors import TrainingError
from training.loop import Run
from training.models import GREY
from training.saving import MODEL

# -- data --------------------------------------------------------------------------------------


def test_tiny_imagenet_is_read_from_its_folder_and_its_archive(data: Path, tmp_path: Path) -> None:
    packed = tmp_path / "tiny.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(data, "tiny-imagenet-200")
    for source in (data, packed):
        train, test = read_data(source)
        assert train.classes == test.classes == WNIDS  # the order of wnids.txt
        assert train.names == dict(zip(WNIDS, WORDS, strict=True))
        assert train.targets.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        names = [photo.name for photo in test.photos]
        assert names == [f"val_{n}.JPEG" for n in (1, 5, 2, 3, 0, 4)]
        assert test.targets.tolist() == [0, 0, 1, 1, 2, 2]
        brightest = [photo.pixels.mean((0, 1)).argmax() for photo in test.photos]
        assert brightest == test.targets.tolist()
        assert len(read_split(source)) == len(read_split(source, "val")) == 6


def test_a_list_that_does_not_fit_its_images_is_refused(data: Path, tmp_path: Path) -> None:
    listing = (data / "val" / "val_annotations.txt").read_text()
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "images").symlink_to(data / "val" / "images")
    (tmp_path / "val" / "val_annotations.txt").write_text(listing.split("\n", 1)[1])
    with pytest.raises(TrainingError, match="names 5 images and 6 are there"):
        read_split(tmp_path, "val")


def test_wordnet_ids_are_found_under_the_names_that_the_data_give_them(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tuned(), read_data(data), replace(PLAN, epochs=1), tmp_path, quiet=True)
    run.learner.classes = WORDS
    run.fit()
    assert load_model(tmp_path / MODEL, device="cpu").labels == WORDS
    argv = ["evaluate", "--data", str(data), "--model", str(tmp_path / MODEL)]
    assert main([*argv, "--device", "cpu"]) == 0
    assert "on 6 images" in caplog.records[-1].getMessage()


# -- augmentation ------------------------------------------------------------------------------


def test_a_crop_is_the_part_of_the_photo_that_was_drawn(data: Path) -> None:
    images, prepare = read_split(data, "train"), Preprocessing((8, 8), GREY, GREY)
    draws = torch.rand(12, 4, generator=generator(3))
    ours = cropped(images, range(12), prepare, draws, 0.5)
    for i, (down, across, mirror, part) in enumerate(draws.tolist()):
        side = round(16 * (0.5 + 0.5 * part))
        top, left = int(down * (16 - side + 1)), int(across * (16 - side + 1))
        pixels = images.photos[i].pixels[top : top + side, left : left + side]
        expected = np.asarray(Image.fromarray(pixels).resize((8, 8), Image.Resampling.BICUBIC))
        expected = expected[:, ::-1] if mirror < 0.5 else expected
        assert np.array_equal(ours[i].numpy(), expected)


def test_the_whole_photo_is_what_the_model_is_given_untouched(data: Path) -> None:
    images, prepare = read_split(data, "train"), Preprocessing((8, 8), GREY, GREY, crop_pct=1.0)
    draws = torch.full((12, 4), 0.999)  # no mirroring, the largest part
    ours = cropped(images, range(12), prepare, draws, 0.6)
    assert torch.equal(ours, windows(images, range(12), prepare))


def test_the_sides_of_crops_go_from_the_smallest_to_all() -> None:
    sides = [round(64 * (0.6875 + (1 - 0.6875) * part)) for part in np.linspace(0, 1, 999)]
    assert set(sides) == set(range(44, 65))


def test_brightness_multiplies_pixels_and_stays_in_range(data: Path) -> None:
    images, prepare = read_split(data, "train"), Preprocessing((16, 16), GREY, GREY, crop_pct=1.0)
    pixels = windows(images, [0, 1, 2], prepare)
    ours = normalised(pixels, prepare, torch.tensor([1.0, 0.85, 1.15]))
    assert torch.equal(ours[0], normalised(pixels, prepare)[0])
    mean, std = (torch.tensor(v)[:, None, None] for v in (prepare.mean, prepare.std))
    for i, factor in ((1, 0.85), (2, 1.15)):
        photo = pixels[i].permute(2, 0, 1) / 255
        torch.testing.assert_close(ours[i], ((photo * factor).clamp(0, 1) - mean) / std)
    plan = replace(PLAN, padding=0.0, brightness=0.15)
    batches = [
        training_batch(images, torch.arange(12), slice(0, 12), prepare, generator(0), p)[0]
        for p in (plan, replace(plan, brightness=0.0))
    ]
    light, plain = (batch * std + mean for batch in batches)
    ratios = (light / plain)[(light < 0.999) & (plain > 0.05)]
    assert 0.85 - 1e-4 <= ratios.min() < 0.9
    assert 1.1 < ratios.max() <= 1.15 + 1e-4
