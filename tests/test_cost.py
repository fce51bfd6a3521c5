"""What a ViT costs: the worked examples, counted operations, bytes kept, times measured."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from explainers import wrap_model
from explainers.methods.explain import Cancelled
from explainers.models.vision_model import VisionModel
from explainers.models.vit import VisionTransformer
from explainers.views.cost import Shape, convolution_reach, cost, patches, shape_of, with_patch
from explainers.views.timing import measure_passes, speed
from tests.tiny import tiny_encoder, tiny_vit

BASE = Shape(patch=16, width=768, depth=12, heads=12, mlp_width=3072)
"""ViT-B/16."""


@pytest.mark.parametrize(
    ("side", "patch", "expected"),
    [(224, 16, 196), (32, 16, 4), (32, 8, 16), (224, 1, 50_176), (768, 16, 2304)],
)
def test_patches_of_the_worked_examples(side: int, patch: int, expected: int) -> None:
    assert patches(side, side, patch) == expected


def test_patches_of_a_rectangle_are_counted_whole() -> None:
    assert patches(224, 448, 16) == 14 * 28
    assert patches(427, 488, 8) == 53 * 61
    for height, width, patch in ((0, 10, 2), (10, 10, 16), (10, 10, 2.5), (10**6, 10, 2)):
        with pytest.raises(ValueError, match="pixels"):
            patches(height, width, patch)  # type: ignore[arg-type]


def test_vit_base_is_197_tokens_of_768_numbers() -> None:
    found = cost(BASE, 224, 224)
    assert (found.patches, found.tokens, found.stream) == (196, 197, 197 * 768 * 4)
    assert found.matrices == 12 * 197**2 * 4
    assert found.operations == pytest.approx(35.1e9, rel=0.01)  # 17.6 GMACs
    pixels = cost(with_patch(BASE, 1), 224, 224)
    assert pixels.attention == 12 * 4 * 50_177**2 * 768
    assert pixels.matrices == pytest.approx(121e9, rel=0.01)  # why pixels are no tokens
    doubled = cost(BASE, 448, 448)
    assert doubled.attention / found.attention == pytest.approx(16, rel=0.02)
    assert doubled.mlp / found.mlp == pytest.approx(4, rel=0.01)


def models() -> list[VisionModel]:
    with torch.random.fork_rng(devices=[]):
        reference = wrap_model(VisionTransformer(32, 4, 24, 2, 3, 40, 7).eval())
    return [wrap_model(tiny_vit(reg_tokens=2)), wrap_model(tiny_vit(global_pool="avg")), reference]


@pytest.mark.parametrize("index", range(3))
def test_operations_are_those_that_torch_counts(index: int) -> None:
    vit = models()[index]
    height, width = vit.preprocessing.size
    pixels = torch.zeros(1, 3, height, width, dtype=vit.dtype)
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        vit.logits(pixels)
    found = cost(shape_of(vit), height, width)
    assert found.operations == counter.get_total_flops()
    counts: Any = counter.get_flop_counts()["Global"]
    assert found.attention == counts[torch.ops.aten.bmm]


def test_shapes_are_read_off_the_parts() -> None:
    assert shape_of(wrap_model(tiny_vit())) == Shape(4, 16, 3, 2, 64, 1, 5)
    assert shape_of(wrap_model(tiny_encoder(), size=(16, 16))) == Shape(4, 16, 3, 2, 64, 1, 5)


def test_training_bytes_are_about_those_kept_for_the_backward_pass() -> None:
    with torch.random.fork_rng(devices=[]):
        module = VisionTransformer(32, 4, 64, 4, 4, 128, 10)
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    held: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            held[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        module(torch.zeros(1, 3, 32, 32))
    measured = sum(tensor.untyped_storage().nbytes() for tensor in held.values())
    found = cost(Shape(4, 64, 4, 4, 128, 1, 10), 32, 32)
    assert found.training == pytest.approx(measured, rel=0.1)
    assert found.checkpointed < found.training / 2


def test_convolutions_see_two_pixels_more_a_layer() -> None:
    seen = convolution_reach(5)
    assert seen == [1, 3, 5, 7, 9, 11]
    kernel = torch.ones(1, 1, 3, 3, dtype=torch.float64)
    image = torch.zeros(1, 1, 21, 21, dtype=torch.float64, requires_grad=True)
    value = image
    for layer in range(1, 6):
        value = torch.nn.functional.conv2d(value, kernel, padding=1)
        (gradient,) = torch.autograd.grad(value[0, 0, 10, 10], image, retain_graph=True)
        assert int((gradient[0, 0, 10] > 0).sum()) == seen[layer]


def test_passes_are_timed_and_can_be_stopped() -> None:
    vit = wrap_model(tiny_vit())
    told: list[tuple[int, int]] = []
    found = measure_passes(vit, (16, 24), lambda done, total: told.append((done, total)))
    assert [(t.side, t.own) for t in found] == [(16, True), (24, True)]
    assert all(t.seconds > 0 for t in found)
    assert told[-1] == (8, 8)
    assert speed(shape_of(vit), found) > 0

    other = wrap_model(tiny_encoder(), size=(16, 16))
    assert not measure_passes(other, (24,), lambda done, total: None)[0].own

    def stop(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        measure_passes(vit, (16,), stop)
