"""What a look costs: several grids, attention that is not read, rounded weights, large photos."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import nn

from explainers import ModelError, Photo, VisionModel, wrap_model
from explainers.attention_call import AttentionCall
from explainers.forecast import forecast, forecast_windows
from explainers.look import Look
from explainers.memory_limit import SHARE, demand_memory
from explainers.models.preprocessing import Preprocessing
from explainers.pace import Pace, measure_pace
from explainers.separate_looks import SeparateLooks
from tests import families
from tests.grid_families import FAMILIES, grid_model, size_of
from tests.own_modules import own_vit
from tests.test_swin_libraries import torchvision_swin
from tests.tiny import seeded, shake, tiny_encoder, tiny_photo_array, tiny_pixels, tiny_vit

PHOTO = Photo(tiny_photo_array(60, 80))
SMALL: dict[str, Any] = {"depth": 2, "embed_dim": 32, "num_heads": 2, "num_classes": 5}


def wrapped(module: nn.Module, size: tuple[int, int]) -> VisionModel:
    half = (0.5, 0.5, 0.5)
    return wrap_model(module.eval(), Preprocessing(size, half, half), size=size)


def unread(name: str) -> VisionModel:
    settings: dict[str, tuple[str, dict[str, Any]]] = {
        "XCiT": ("xcit_nano_12_p16_224", SMALL),
        "CaiT": ("cait_xxs24_224", {**SMALL, "img_size": 64}),
        "TNT": ("tnt_s_legacy_patch16_224", {"depth": 2, "num_classes": 5, "img_size": 64}),
        "LeViT": ("levit_128s", {"num_classes": 5}),
    }
    architecture, given = settings[name]
    with seeded(1):
        module = shake(timm.create_model(architecture, **given), 0.05)
    size = (224, 224) if name == "LeViT" else (64, 64)
    return wrapped(module, size)


def scripted() -> VisionModel:
    module = tiny_vit(dtype=torch.float32)
    with torch.no_grad():
        traced: Any = torch.jit.trace(module, tiny_pixels(dtype=torch.float32))
    return wrapped(traced, (16, 16))


def held(vit: VisionModel) -> int:
    """The slow twin: q, k and mask of every call of a trace, byte by byte."""
    total = 0
    for call in vit.trace(PHOTO).calls:
        plain = call if isinstance(call, AttentionCall) else call.call
        total += plain.q.nbytes + plain.k.nbytes
        total += 0 if plain.mask is None else plain.mask.nbytes
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_each_attention_call_counts_in_its_own_grid(family: str) -> None:
    vit = wrapped(grid_model(family), size_of(family))
    pace = measure_pace(vit)
    told = forecast(vit, PHOTO, pace, whole=False)
    rows, columns = vit.adapter.grid(size_of(family))
    tokens = vit.adapter.prefix + rows * columns
    assert pace.kept_bytes(tokens) == pytest.approx(held(vit))
    assert told.bytes > held(vit)
    grids = [vit.adapter.block_grids(i, size_of(family))[0] for i in range(vit.adapter.depth)]
    assert told.grid == max(grids)
    assert told.tokens == vit.adapter.prefix + told.grid[0] * told.grid[1]
    assert (told.pairs is None) == (max(grids) != (rows, columns))
    assert told.seconds > 0


def test_a_swins_sentence_names_its_finest_grid() -> None:
    vit = wrapped(torchvision_swin(), (32, 32))
    told = forecast(vit, PHOTO, measure_pace(vit), whole=False)
    assert told.sentence.startswith("8×8 cells in the finest grid that is read: 64 tokens; about")
    looks = SeparateLooks(vit, PHOTO)
    many = forecast_windows(looks, measure_pace(vit))
    assert many.sentence.startswith(f"{len(looks)} windows of 8×8 cells in the finest grid")
    assert many.bytes > len(looks) * held(vit)


@pytest.mark.filterwarnings("ignore")  # torch's own, about TorchScript's age
@pytest.mark.parametrize("name", ["XCiT", "CaiT", "TNT", "LeViT", "TorchScript"])
def test_models_whose_attention_is_not_read_are_forecast(name: str) -> None:
    vit = scripted() if name == "TorchScript" else unread(name)
    pace = measure_pace(vit)
    assert (pace.kept, pace.kept_pairs, pace.per_pair, pace.finer) == (0, 0, 0, 0)
    assert pace.beside > 0
    assert pace.per_token > 0
    for kind in ("own", "windows"):
        told = Look(kind).forecast(vit, PHOTO, pace)  # type: ignore[arg-type]
        assert told.pairs is None
        assert "cells in the finest grid that is read" in told.sentence


@pytest.mark.filterwarnings("ignore")  # torch's own, about torch.ao's age
@pytest.mark.parametrize(
    "make",
    [tiny_vit, tiny_encoder, own_vit, lambda: grid_model("swin"), lambda: families.build("SAM")],
)
def test_rounded_models_are_forecast_as_they_were(make: Any) -> None:
    module = make().float().eval()
    sizes = {"SwinTransformer": (32, 64), "VisionTransformerSAM": (12, 24)}
    size = sizes.get(type(module).__name__, (16, 16))
    small = torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)
    plain, rounded = (measure_pace(wrapped(m, size)) for m in (module, small))
    for what in ("kept", "kept_pairs", "prefix", "finer", "beside_pixel"):
        assert getattr(rounded, what) == getattr(plain, what), what
    assert rounded.beside == pytest.approx(plain.beside, rel=0.5)
    told = Look("windows").forecast(wrapped(small, size), PHOTO, rounded)
    assert told.bytes > 0


def test_blocks_whose_projection_is_unknown_are_measured() -> None:
    vit = wrapped(own_vit(), (16, 16))
    width = measure_pace(vit).beside
    vit.adapter.blocks = tuple(type(b)(None, None, nn.Identity()) for b in vit.adapter.blocks)
    vit.attention_check = None
    assert width / 4 < measure_pace(vit).beside < 4 * width


# The largest look that is proposed can be taken


PACE = Pace(1e-3, 1e-6, 100.0, 0.0, 50.0, 10.0, prefix=1)


LARGE = Photo(np.zeros((6000, 8000, 3), np.uint8))  # 48 megapixels: a copy takes 192 MB


@pytest.mark.parametrize(("free", "wanted"), [(300, 4000), (260, 2000)])
def test_what_is_proposed_for_a_large_photo_is_not_refused(free: int, wanted: int) -> None:
    vit, megabytes = wrap_model(tiny_vit(patch_size=8)), free * 1_000_000
    with pytest.raises(ModelError) as refused:
        demand_memory(vit, LARGE, PACE, forecast(vit, LARGE, PACE, wanted), megabytes)
    largest: Any = refused.value.args[0].values["largest"]
    demand_memory(vit, LARGE, PACE, forecast(vit, LARGE, PACE, largest), megabytes)
    more = forecast(vit, LARGE, PACE, largest + 8)
    assert more.bytes > SHARE * megabytes


@pytest.mark.parametrize("wanted", [224, 112])
def test_a_photo_too_large_to_resize_is_what_is_named(wanted: int) -> None:
    vit = wrap_model(tiny_vit(patch_size=8))
    told = forecast(vit, LARGE, PACE, wanted)
    with pytest.raises(ModelError, match="too few to resize a photo of 8000×6000 pixels"):
        demand_memory(vit, LARGE, PACE, told, 200_000_000)


@pytest.mark.parametrize("free", [150_000, 200_000])
def test_what_is_proposed_for_windows_is_not_refused(free: int) -> None:
    vit = wrap_model(tiny_vit())
    told = forecast_windows(SeparateLooks(vit, PHOTO, 100), PACE)
    with pytest.raises(ModelError) as refused:
        demand_memory(vit, PHOTO, PACE, told, free)
    largest: Any = refused.value.args[0].values["largest"]
    again = forecast_windows(SeparateLooks(vit, PHOTO, largest), PACE)
    assert again.bytes <= SHARE * free
    demand_memory(vit, PHOTO, PACE, again, free)
    beyond = forecast_windows(SeparateLooks(vit, PHOTO, largest + 4), PACE)
    assert beyond.bytes > SHARE * free
