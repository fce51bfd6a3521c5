"""Preprocessing: bit for bit what timm's evaluation transform makes of the same photo."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
import timm
import torch
from timm.data import create_transform, resolve_data_config
from torch import nn

from explainers.image import Photo
from explainers.models import preprocessing as module_under_test
from explainers.models.preprocessing import Preprocessing
from explainers.sentence import Sentence
from tests.tiny import tiny_photo_array

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INTERPOLATIONS = ("bicubic", "bilinear", "lanczos", "nearest")
SIZES = ((224, 224), (96, 96), (97, 97), (64, 128), (37, 50), (224, 448), (30, 90))


def noise(height: int, width: int, seed: int = 0) -> Photo:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Photo(values)


def by_timm(prepared: Preprocessing, photo: Photo) -> torch.Tensor:
    config = asdict(prepared)
    transform = create_transform((3, *config.pop("size")), is_training=False, **config)
    return transform(photo.to_pil())


def named(name: str) -> nn.Module:
    """A module that only has the configuration of a timm model."""
    module = nn.Module()
    module.pretrained_cfg = timm.get_pretrained_cfg(name).to_dict()
    return module


# Equal to timm


@pytest.mark.parametrize("mode", ["center", "squash", "border"])
@pytest.mark.parametrize("size", SIZES)
def test_equal_to_timm(size: tuple[int, int], mode: str) -> None:
    draw = random.Random(f"{size} {mode}")
    for seed in range(8 if size[0] == 224 else 20):
        height, width = draw.randint(1, 260), draw.randint(1, 260)
        if mode == "border" or max(height, width) > 9 * min(height, width):
            height, width = height + 15, width + 15  # strips have a test of their own
        prepared = Preprocessing(
            size,
            MEAN,
            STD,
            INTERPOLATIONS[seed % 4],
            draw.choice([0.875, 0.9, 0.95, 0.963, 1.0, 1.1, 0.5]),
            mode,
        )
        photo = noise(height, width, seed)
        got, want = prepared(photo), by_timm(prepared, photo)
        assert got.dtype == torch.float32
        assert got.is_contiguous()
        assert torch.equal(got, want), (height, width, prepared)


@pytest.mark.parametrize("shape", [(1, 40), (40, 1), (3, 500), (500, 3), (1, 1), (2, 1)])
@pytest.mark.parametrize("mode", ["center", "squash"])
def test_equal_to_timm_for_strips(shape: tuple[int, int], mode: str) -> None:
    for interpolation in INTERPOLATIONS:
        prepared = Preprocessing((64, 64), MEAN, STD, interpolation, 0.9, mode)
        photo = noise(*shape)
        assert torch.equal(prepared(photo), by_timm(prepared, photo))


def test_equal_to_timm_for_its_models_configurations() -> None:
    families = ("vit", "deit", "eva", "beit", "deepseek", "swin", "cait", "volo", "xcit")
    photo, seen = Photo(tiny_photo_array(90, 140)), set()
    for name in (name for family in families for name in timm.list_pretrained(f"{family}*")):
        module = named(name)
        if (
            len(module.pretrained_cfg["mean"]) != 3
            or max(module.pretrained_cfg["input_size"]) > 400
        ):
            continue  # grey pictures; sizes that only take longer
        prepared = Preprocessing.from_timm(module)
        if prepared in seen:
            continue
        seen.add(prepared)
        config = resolve_data_config(model=module)
        assert torch.equal(prepared(photo), create_transform(**config)(photo.to_pil())), name
    assert {prepared.crop_mode for prepared in seen} == {"center", "squash", "border"}
    assert len(seen) > 20


def test_a_random_interpolation_is_bilinear() -> None:
    photo = noise(60, 80)
    prepared = Preprocessing((32, 32), MEAN, STD, "bilinear")
    assert torch.equal(replace(prepared, interpolation="random")(photo), prepared(photo))


def test_padding_is_the_mean_only_for_borders() -> None:
    photo = Photo(np.full((40, 80, 3), 255, np.uint8))
    border = Preprocessing((64, 64), MEAN, STD, crop_pct=1.0, crop_mode="border")
    window = border.window(photo)
    assert window[0, 0].tolist() == [round(255 * value) for value in MEAN]
    assert window[32, 32].tolist() == [255, 255, 255]
    assert border(photo)[:, 0, 0].abs().max() < 0.01
    centre = Preprocessing((64, 64), MEAN, STD, crop_pct=1.2, crop_mode="center")
    assert centre.window(photo)[0, 0].tolist() == [0, 0, 0]


# Very long photos


@pytest.mark.parametrize("shape", [(1, 900), (3, 1001), (700, 3), (300, 200)])
@pytest.mark.parametrize("mode", ["center", "squash", "border"])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear", "lanczos", "box", "hamming"])
def test_a_part_is_resized_as_the_whole_would_be(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], mode: str, interpolation: str
) -> None:
    prepared = Preprocessing((96, 64), MEAN, STD, interpolation, 0.875, mode)
    photo = noise(*shape)
    whole = prepared.window(photo).astype(int)
    monkeypatch.setattr(module_under_test, "_HELD", 0)
    difference = np.abs(prepared.window(photo) - whole)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.005


@pytest.mark.parametrize("shape", [(1, 3_000_000), (3_000_000, 1), (2, 1_000_001)])
@pytest.mark.parametrize("mode", ["center", "squash", "border"])
def test_a_photo_as_thin_as_a_line_takes_no_memory(shape: tuple[int, int], mode: str) -> None:
    photo = Photo(np.full((*shape, 3), 90, np.uint8))
    prepared = Preprocessing((224, 224), MEAN, STD, "bicubic", 0.875, mode)
    window = prepared.window(photo)
    assert window.shape == (224, 224, 3)
    assert (window == 90).all(axis=2).any()
    if mode != "border":
        assert (window == 90).all()
    assert prepared.geometry(photo, (16, 16)).seen_share > 0


# The way back


@pytest.mark.parametrize(
    "numbers", [(MEAN, STD), ((0.5,) * 3, (0.5,) * 3), ((0.0,) * 3, (1.0,) * 3)]
)
def test_undo_gives_the_picture_back_exactly(numbers: tuple) -> None:
    every_level = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    photo = Photo(every_level)
    prepared = Preprocessing((16, 16), *numbers, crop_pct=1.0)
    assert np.array_equal(prepared.undo(prepared(photo)), every_level)
    assert np.array_equal(prepared.undo(prepared(photo).double().requires_grad_()), every_level)
    beyond = torch.tensor([-1e6, 0.0, 1e6])[:, None, None].expand(3, 16, 16)
    assert np.array_equal(prepared.undo(beyond)[0, 0, [0, 2]], [0, 255])


def test_the_geometry_is_that_of_the_pixels() -> None:
    """A ramp over the photo shows, in the window, from where each pixel came."""
    ramp = np.linspace(0, 255, 300)[None, :, None].repeat(200, axis=0).repeat(3, axis=2)
    for source, axis in ((ramp, 0), (ramp.swapaxes(0, 1), 1)):
        photo = Photo(source.astype(np.uint8))
        for mode in ("center", "squash", "border"):
            prepared = Preprocessing((96, 128), MEAN, STD, "bilinear", 0.9, mode)
            geometry = prepared.geometry(photo, (16, 16))
            assert geometry.grid == (6, 8)
            window = prepared.window(photo).astype(float)[..., 0]
            v, u = np.mgrid[0:96, 0:128] + 0.5
            place = geometry.input_to_photo(u, v)[axis]
            inside = (place > 2) & (place < 298)
            if mode == "border":
                other = geometry.input_to_photo(u, v)[1 - axis]
                inside &= (other > 1) & (other < 199)
            assert np.abs(window - place / 300 * 255)[inside].max() < 2


# Read from a model


def test_numbers_come_from_the_models_own_configuration() -> None:
    def numbers(name: str) -> tuple:
        prepared = Preprocessing.from_timm(named(name))
        return prepared.mean, prepared.std, prepared.crop_pct, prepared.interpolation

    half = (0.5, 0.5, 0.5)
    augreg = numbers("vit_base_patch16_224.augreg2_in21k_ft_in1k")
    assert augreg == (half, half, 0.9, "bicubic")
    deit = numbers("deit_tiny_patch16_224.fb_in1k")
    assert deit[:2] == (MEAN, STD)
    clip = numbers("vit_base_patch16_clip_224.openai")
    assert clip[0] == pytest.approx((0.4815, 0.4578, 0.4082), abs=1e-4)
    assert Preprocessing.from_timm(named("vit_base_patch16_siglip_224.webli")).mean == half


@pytest.mark.parametrize(
    ("built", "size"), [(64, (64, 64)), ((32, 64), (32, 64)), (None, (224, 224))]
)
def test_the_size_is_that_of_the_module(built: object, size: tuple[int, int]) -> None:
    options = {} if built is None else {"img_size": built}
    module = timm.create_model("vit_tiny_patch16_224", depth=1, **options)
    assert Preprocessing.from_timm(module).size == size
    assert Preprocessing.from_timm(module, size=96).size == (96, 96)
    assert Preprocessing.from_timm(module, size=(96, 48)).size == (96, 48)


def test_a_module_without_a_configuration_gets_timms_defaults() -> None:
    module = nn.Module()
    module.patch_embed = SimpleNamespace(img_size=(48, 32))
    prepared = Preprocessing.from_timm(module)
    assert (prepared.size, prepared.mean, prepared.crop_mode) == ((48, 32), MEAN, "center")


def test_lists_from_a_recipe_compare_equal() -> None:
    prepared = Preprocessing((32, 32), MEAN, STD)
    again = Preprocessing(
        **{k: list(v) if isinstance(v, tuple) else v for k, v in asdict(prepared).items()}
    )
    assert again == prepared
    assert hash(again) == hash(prepared)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": (0, 32)},
        {"size": (32.5, 32)},
        {"size": (32,)},
        {"mean": (0.5,)},
        {"mean": (0.5, 0.5, float("nan"))},
        {"std": (0.5, 0.0, 0.5)},
        {"interpolation": "cubic"},
        {"crop_pct": 0.0},
        {"crop_pct": float("inf")},
        {"crop_mode": "middle"},
    ],
)
def test_values_that_cannot_be(wrong: dict) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name) as caught:
        replace(Preprocessing((32, 32), MEAN, STD), **wrong)
    assert isinstance(caught.value.args[0], Sentence)


def test_threads_give_the_same() -> None:
    prepared = Preprocessing((64, 64), MEAN, STD)
    photos = [noise(50 + seed, 90 - seed, seed) for seed in range(20)]
    serial = [prepared(photo) for photo in photos]
    with ThreadPoolExecutor(8) as threads:
        for one, other in zip(serial, threads.map(prepared, photos), strict=True):
            assert torch.equal(one, other)
