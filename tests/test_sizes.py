"""Any size: positions resampled in two dimensions, weights shared, nothing of a photo cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch.nn import functional as F

from explainers import ModelError, Photo, VisionModel, explain, wrap_model
from explainers.models.sizes import whole_size
from explainers.models.vit import ConciseVisionTransformer, VisionTransformer
from tests.tiny import PATCH, seeded, shake, tiny_encoder, tiny_photo_array, tiny_vit

GRIDS = [(4, 4), (2, 8), (7, 3), (3, 5)]
KINDS = ("1d", "2d", "relative", "none")


def photo_of(height: int, width: int) -> Photo:
    return Photo(tiny_photo_array(height, width))


def reference(kind: Any, concise: bool = False) -> torch.nn.Module:
    make: Any = ConciseVisionTransformer if concise else VisionTransformer
    more = {} if concise else {"positions": kind}
    with seeded(3):
        module = make((16, 16), PATCH, 16, 2, 2, 32, 5, **more)
        return shake(module).to(torch.float64).eval()


def wrapped(module: torch.nn.Module) -> VisionModel:
    from explainers.models.preprocessing import Preprocessing

    half = (0.5, 0.5, 0.5)
    return wrap_model(module, Preprocessing((16, 16), half, half), size=(16, 16))


# The slow twin: bicubic interpolation with antialiasing is timm's own; here against a plain loop


def slow_bicubic(plane: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """(h, w, W) → (rows, columns, W): cubic convolution (a = −½), widened where it shrinks."""

    def kernel(x: float) -> float:
        x = abs(x)
        if x < 1:
            return 1.5 * x**3 - 2.5 * x**2 + 1
        return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0

    def matrix(old: int, new: int) -> np.ndarray:
        step = old / new
        reach = max(step, 1.0)
        weights = np.zeros((new, old))
        for i in range(new):
            centre = (i + 0.5) * step
            for j in range(old):
                weights[i, j] = kernel((j + 0.5 - centre) / reach)
            weights[i] /= weights[i].sum()
        return weights

    return np.einsum(
        "ih,jw,hwc->ijc", matrix(plane.shape[0], rows), matrix(plane.shape[1], columns), plane
    )


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("prefix", [{}, {"reg_tokens": 2}, {"no_embed_class": True}])
def test_positions_are_resampled_in_two_dimensions(
    grid: tuple[int, int], prefix: dict[str, Any]
) -> None:
    vit = wrap_model(tiny_vit(dtype=torch.float32, **prefix))
    other = vit.at_size((grid[0] * PATCH, grid[1] * PATCH))
    old, new = vit.module.pos_embed[0].detach(), other.module.pos_embed[0].detach()
    first = len(old) - 16
    plane = old[first:].reshape(4, 4, -1).double().numpy()
    expected = slow_bicubic(plane, *grid).reshape(grid[0] * grid[1], -1)
    assert torch.equal(new[:first], old[:first])
    np.testing.assert_allclose(new[first:].numpy(), expected, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_model_takes_any_size(kind: str) -> None:
    vit = wrapped(reference(kind))
    other = vit.at_size((8, 24))
    assert other.trace(photo_of(30, 50)).grid == (2, 6)
    positions: Any = other.module.positions
    if kind == "2d":
        rows = vit.module.positions.rows.detach().T[None]
        line = F.interpolate(rows, 2, mode="linear", align_corners=False)[0].T
        assert torch.equal(positions.rows.detach(), line)
        assert positions.columns.shape[0] == 6
    if kind == "relative":  # no offset stays no offset
        here, there = vit.module.positions.bias(), positions.bias()
        assert torch.allclose(there[0, :, 3, 3], here[0, :, 3, 3])
        assert torch.equal(there[0, :, 0, 0], here[0, :, 0, 0])
    assert torch.equal(other.module.cls_token, vit.module.cls_token)


@pytest.mark.parametrize(
    "module",
    [tiny_vit(), tiny_vit(distilled=True), tiny_vit(dynamic_img_size=True), reference("1d")],
)
def test_the_native_grid_is_exact_and_nothing_is_changed(module: torch.nn.Module) -> None:
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    places = {name: parameter.data_ptr() for name, parameter in module.named_parameters()}
    vit, photo = wrapped(module), photo_of(60, 60)
    assert vit.at_size((16, 16)) is vit
    other = vit.at_size((24, 40))
    assert other.at_size((16, 16)) is vit  # back to the model as it was loaded
    plain = vit.trace(photo)
    other.trace(photo)
    explain("saliency", other.trace(photo))
    shared = {name: parameter.data_ptr() for name, parameter in other.module.named_parameters()}
    assert {name for name in places if places[name] != shared[name]} <= {
        *("pos_embed", "positions.table")
    }
    for name, tensor in module.state_dict().items():
        assert torch.equal(before[name], tensor)
    again = vit.trace(photo)
    assert torch.equal(plain.logits, again.logits)
    assert other.weights_hash == vit.weights_hash
    # a photo that is the model's own size as it stands: the whole look is the model's own
    small = photo_of(16, 16)
    exact = vit.whole(small, 16)
    assert exact.trace(small).grid == (4, 4)
    assert exact.module is vit.module


def test_concise_twin_and_reference_agree_at_another_size() -> None:
    from explainers.models.vit_weights import copy_weights

    source, target = reference("1d"), reference("1d", concise=True)
    copy_weights(source, target)
    one, two = wrapped(source).at_size((20, 12)), wrapped(target).at_size((20, 12))
    photo = photo_of(50, 40)
    assert torch.allclose(one.trace(photo).logits, two.trace(photo).logits, atol=1e-12)


# A whole photo


@pytest.mark.parametrize(
    ("shape", "long_side", "expected"),
    [
        ((300, 500), 448, (256, 448)),
        ((500, 300), 448, (448, 256)),
        ((100, 100), 500, (496, 496)),
        ((480, 640), None, (480, 640)),
        ((479, 641), None, (464, 640)),
        ((1, 5000), 64, (16, 64)),
        ((1080, 1920), 768, (432, 768)),
    ],
)
def test_the_aspect_is_kept_and_sides_are_rounded_down(
    shape: tuple[int, int], long_side: int | None, expected: tuple[int, int]
) -> None:
    photo = Photo(np.zeros((*shape, 3), np.uint8))
    size = whole_size(photo, (16, 16), long_side)
    assert size == expected
    longest = max(shape)
    for side, got in zip(shape, size, strict=True):
        exact = side * (long_side or longest) / longest
        assert got % 16 == 0
        assert exact - 16 < got <= max(exact, 16)


def test_a_whole_look_cuts_nothing_and_says_so() -> None:
    vit = wrap_model(tiny_vit(), trained_grids=[(4, 4)])
    photo = photo_of(40, 61)
    look = vit.whole(photo, 32)
    trace = look.trace(photo)
    geometry = trace.geometry
    assert trace.grid == (5, 8)
    assert geometry.seen_share == 1
    assert geometry.resized_size == geometry.input_size == (20, 32)
    heat = explain("rollout", trace)
    assert heat.values.shape == (5, 8)
    assert [note.key for note in heat.notes] == ["untrained_grid"]
    assert heat.provenance["preprocessing"]["size"] == (20, 32)
    assert heat.provenance["preprocessing"]["crop_mode"] == "squash"
    assert heat.provenance["geometry"]["input_size"] == (20, 32)
    native = explain("rollout", vit.trace(photo))
    assert not native.notes
    assert heat.provenance["loaded_weights_sha256"] == native.provenance["loaded_weights_sha256"]


def test_the_answer_at_another_size_is_what_timm_gives_there() -> None:
    module = tiny_vit(dtype=torch.float32)
    vit, photo = wrap_model(module), photo_of(40, 60)
    look = vit.whole(photo, 48)
    twin: Any = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=(32, 48),
        patch_size=PATCH,
        embed_dim=16,
        depth=3,
        num_heads=2,
        num_classes=5,
    ).eval()
    from timm.models.vision_transformer import checkpoint_filter_fn

    twin.load_state_dict(checkpoint_filter_fn(module.state_dict(), twin))
    with torch.no_grad():
        assert torch.equal(twin(look.prepare([photo])[0]), look.trace(photo).logits)


def test_the_size_in_load_model_is_the_same_look(embedded: VisionModel) -> None:
    from explainers import load_model

    photo = photo_of(60, 80)
    loaded = load_model("embedded", size=(112, 154)).trace(photo)
    resized = embedded.at_size((112, 154)).trace(photo)
    assert torch.equal(loaded.logits, resized.logits)


# Refusals


@pytest.mark.parametrize("long_side", [3, 0, -5, 2.5, "768", True])
def test_long_sides_that_are_none_are_refused(long_side: Any) -> None:
    with pytest.raises(ModelError, match="long side is a whole number"):
        wrap_model(tiny_vit()).whole(photo_of(20, 20), long_side)


def test_sizes_that_are_not_whole_patches_are_refused() -> None:
    with pytest.raises(ModelError, match="whole patches of 4×4"):
        wrap_model(tiny_vit()).at_size((18, 16))


def test_a_model_of_one_size_says_so() -> None:
    vit = wrapped(tiny_encoder())
    with pytest.raises(ModelError, match="takes photos of 16×16 pixels only"):
        vit.whole(photo_of(40, 60), 32)
    assert vit.trace(photo_of(40, 60)).grid == (4, 4)


@pytest.mark.parametrize(
    ("dynamic", "size", "reason"),
    [
        (True, (18, 16), "18.* should be divisible by patch size"),
        (False, (24, 16), "24.* doesn't match model"),
    ],
)
def test_a_size_that_the_module_refuses_is_answered_in_its_words(
    dynamic: bool, size: tuple[int, int], reason: str
) -> None:
    vit = wrap_model(tiny_vit(dynamic_img_size=dynamic), size=size)
    words = f"could not be run on an input of {size[0]}×16 .*{reason}"
    with pytest.raises(ModelError, match=words):
        vit.trace(photo_of(40, 60))
