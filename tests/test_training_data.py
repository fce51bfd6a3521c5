"""Training data and batches: folders and archives, augmentation, order, rates, decay."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from explainers.models.preprocessing import Preprocessing
from tests.colour_training import CLASSES, SMALL, data
from training.batches import augmented, epoch_batches, normalised, windows
from training.data import read_data, read_split
from training.models import new_learner
from training.plan import Plan, optimiser


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
