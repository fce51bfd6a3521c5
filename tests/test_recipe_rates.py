"""What learns in the embedded weights' recipe, how fast, how long, and at which sizes."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from explainers import load_model, wrap_model
from tests.tiny import tiny_encoder, tiny_vit
from tests.tiny_imagenet import PLAN, WNIDS, data, tuned
from training.data import read_data
from training.depths import depth_of, from_head
from training.errors import TrainingError
from training.loop import Run
from training.models import fine_tuned, new_learner
from training.plan import optimiser
from training.saving import MODEL

# -- what learns, and how fast -------------------------------------------------------------------


def test_distance_from_the_head() -> None:
    far = {"cls_token": 4, "pos_embed": 4, "patch_embed.proj.weight": 4, "blocks.0.norm1.bias": 3}
    near = {"blocks.2.mlp.fc1.weight": 1, "norm.weight": 0, "head.bias": 0}
    timm_vit = tiny_vit()
    assert depth_of(timm_vit) == 3
    named = dict(timm_vit.named_parameters())
    for name, distance in {**far, **near}.items():
        assert name in named
        assert from_head(name, 3) == distance
    for kind in ("reference_vit", "concise_vit"):
        module = new_learner(kind, {"depth": 3, "width": 8, "heads": 2}, WNIDS, 0).module
        found = {from_head(name, depth_of(module)) for name, _ in module.named_parameters()}
        assert found == {0, 1, 2, 3, 4}
        (last,) = (n for n, _ in module.named_parameters() if n.endswith("norm.weight"))
        assert from_head(last, 3) == 0
    assert depth_of(tiny_encoder()) == 3  # encoder.layers.0 …


def test_rates_fall_by_layer_and_every_parameter_learns_once() -> None:
    learner = tuned()
    plan = replace(PLAN, layer_decay=0.5, beta2=0.98)
    found = optimiser(learner.module, plan)
    names = {id(p): name for name, p in learner.module.named_parameters()}
    parts = {names[id(p)]: group["part"] for group in found.param_groups for p in group["params"]}
    assert parts.keys() == set(names.values())
    assert sum(len(group["params"]) for group in found.param_groups) == len(parts)
    assert parts["head.weight"] == parts["norm.bias"] == 1
    assert parts["blocks.2.attn.qkv.weight"] == 0.5
    assert parts["blocks.0.attn.qkv.weight"] == 0.125
    assert parts["pos_embed"] == parts["patch_embed.proj.weight"] == 0.0625
    assert all(group["betas"] == (0.9, 0.98) for group in found.param_groups)


def test_the_first_step_moves_each_layer_by_its_own_rate(data: Path, tmp_path: Path) -> None:
    """AdamW's first step is the rate times the gradient's sign, whatever the gradient."""
    learner = tuned()
    torch.nn.init.normal_(learner.module.head.weight)
    plan = replace(PLAN, steps=1, rate=1e-3, warmup=0, layer_decay=0.5, weight_decay=0.0)
    before = {name: value.clone() for name, value in learner.module.named_parameters()}
    Run(learner, read_data(data), plan, tmp_path, quiet=True).fit()
    for name, value in learner.module.named_parameters():
        if "attn.qkv.bias" in name:
            continue  # the keys' third has no gradient but rounding
        moved = (value - before[name]).abs().median().item()
        assert moved == pytest.approx(1e-3 * 0.5 ** from_head(name, 3), rel=0.01), name


@pytest.mark.parametrize("count", [1, 3])
def test_first_blocks_and_the_embedding_stay(data: Path, tmp_path: Path, count: int) -> None:
    learner = tuned(count, drop_path_rate=0.5)
    learner.train_mode()
    modes = [block.training for block in learner.module.blocks]
    assert modes == [False] * count + [True] * (3 - count)
    before = {name: value.clone() for name, value in learner.module.state_dict().items()}
    Run(learner, read_data(data), PLAN, tmp_path, quiet=True).fit()
    stay = ("cls_token", "pos_embed", "patch_embed.", *(f"blocks.{i}." for i in range(count)))
    for name, value in learner.module.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith(stay), name


def test_blocks_that_cannot_be_frozen() -> None:
    for frozen, count in ((False, 4), (True, 1), (False, -1)):
        with pytest.raises(TrainingError, match="takes 0 to 3 blocks"):
            fine_tuned(wrap_model(tiny_vit()), WNIDS, frozen, count)


# -- steps and sizes -----------------------------------------------------------------------------


def test_steps_end_a_run_within_an_epoch(data: Path, tmp_path: Path) -> None:
    run = Run(tuned(), read_data(data), replace(PLAN, steps=5), tmp_path, quiet=True)
    assert [row["step"] for row in run.fit()] == [3, 5]  # 12 images are 3 batches
    assert run.progress.history[-1]["rate"] == PLAN.rate_at(4, 5)


def sized(module: nn.Module, seen: list[int]) -> None:
    module.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[-1]))


def test_images_grow_within_one_run_and_a_resumed_one_is_the_same(
    data: Path, tmp_path: Path
) -> None:
    plan = replace(PLAN, steps=8, later_size=24, later_from=0.6, crop_from=0.5, brightness=0.1)
    weights, sizes = [], []
    for name in ("whole", "broken"):
        run, seen = Run(tuned(1), read_data(data), plan, tmp_path / name, quiet=True), []
        sized(run.learner.module, seen)
        if name == "broken":
            run.save_every, inner = 1, run._step

            def stopping(*arguments: Any, run: Run = run, inner: Any = inner) -> None:
                if run.progress.step == 6:
                    raise KeyboardInterrupt
                inner(*arguments)

            run._step = stopping  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                run.fit()
            run = Run(tuned(1), read_data(data), plan, tmp_path / name, quiet=True)
            run.resume()
            assert run.progress.step == 6
        run.fit()
        weights.append(load_file(tmp_path / name / MODEL))
        sizes.append(seen)
    assert all(torch.equal(value, weights[1][key]) for key, value in weights[0].items())
    # 3 steps an epoch, then the 6 test images; the fifth step begins the later part.
    assert sizes[0] == [16, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24]


def test_positions_are_resampled_once_or_at_every_step_alike(data: Path, tmp_path: Path) -> None:
    plan = replace(PLAN, steps=4, later_size=24, later_from=0.5)
    run = Run(tuned(), read_data(data), plan, tmp_path, quiet=True)
    run.fit()
    larger = load_model(tmp_path / MODEL, size=24, device="cpu").module
    pixels = torch.randn(2, 3, 24, 24)
    with torch.no_grad():
        torch.testing.assert_close(larger(pixels), run.learner.module.eval()(pixels))


def test_sizes_that_a_model_does_not_take(data: Path, tmp_path: Path) -> None:
    fixed = fine_tuned(wrap_model(tiny_vit(dtype=torch.float32)), WNIDS, False)
    for learner, size, said in ((fixed, 24, "several sizes"), (tuned(), 18, "whole patches")):
        with pytest.raises(TrainingError, match=said):
            Run(learner, read_data(data), replace(PLAN, later_size=size), tmp_path, quiet=True)
