"""Fine-tuning: new heads, what learns, higher sizes, positions, and models opened again."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import load_file
from torch import nn

from explainers import load_model, load_photo, wrap_model
from explainers.models.reference_file import grid_of, new_reference, resampled
from tests.colour_training import CLASSES, PLAN, SMALL, data, run_of, words
from tests.tiny import seeded, tiny_photo_array, tiny_vit
from training.__main__ import main
from training.data import read_data
from training.loop import Run
from training.models import fine_tuned, replace_head
from training.saving import MODEL, save_model


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
