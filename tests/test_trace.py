"""A trace says what the model did: against the forward pass written out, for every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from explainers import ModelError, explain, load_photo, wrap_model
from explainers.models.adapters import NAMES
from explainers.trace import Trace
from tests.slow_vit import slow_forward
from tests.tiny import VARIANTS, tiny_encoder, tiny_photo_array, tiny_vit

PHOTO = load_photo(tiny_photo_array())
OTHER = load_photo(tiny_photo_array(seed=9))


def same(left: torch.Tensor, right: torch.Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(left, right, rtol=0, atol=tolerance)


@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_and_logits_equal_the_pass_written_out(variant: str) -> None:
    module = tiny_vit(**VARIANTS[variant])
    vit = wrap_model(module)
    trace = vit.trace(PHOTO, keep=NAMES)
    assert vit.attention_check, vit.attention_check.reason
    with torch.no_grad():
        slow = slow_forward(module, trace.pixels[0])
        plain = module(trace.pixels)
    same(plain[0], slow.logits)
    if trace.logits is not None:
        assert torch.equal(trace.logits, plain)
    for block in range(trace.depth):
        same(trace.attention(block), slow.A[block])
        same(trace.attention(block, head=1, rows=[2, 0]), slow.A[block][1, [2, 0]])
        same(trace.attention(block).sum(-1), torch.ones(trace.heads, trace.tokens).double())
        same(trace.tensor("input", block), slow.stream[block])
        same(trace.tensor("middle", block), slow.middle[block])
        same(trace.tensor("output", block), slow.stream[block + 1])
        same(trace.tensor("heads", block), torch.cat(list(slow.o[block]), 1))


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "headless"])
def test_attention_gradients_equal_the_explicit_ones(variant: str) -> None:
    module = tiny_vit(**VARIANTS[variant])
    trace = wrap_model(module).trace(PHOTO)
    found = trace.gradients(2, against=0)
    pixels = trace.pixels[0].clone().requires_grad_()
    slow = slow_forward(module, pixels)
    wanted = torch.autograd.grad(slow.logits[2] - slow.logits[0], [pixels, *slow.A])
    same(found.pixels, wanted[0])
    for block in range(trace.depth):
        same(found.attention(block), wanted[1 + block])
        same(found.attention(block, slice(1, 3)), wanted[1 + block][:, 1:3])


def test_gradients_of_different_blocks_differ_and_come_in_order() -> None:
    """Gradients arrive last layer first; each must stand beside its own block's attention."""
    module = tiny_vit()
    with torch.no_grad():  # only block 1's values reach the answer
        for block in (0, 2):
            module.blocks[block].attn.proj.weight.zero_()
    found = wrap_model(module).trace(PHOTO).gradients(1)
    sizes = [float(found.attention(block).abs().max()) for block in range(3)]
    assert sizes[0] == sizes[2] == 0 < sizes[1]


@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_encoder_models(norm_first: bool) -> None:
    module = tiny_encoder(norm_first=norm_first, dtype=torch.float32)
    vit = wrap_model(module, size=(16, 16))
    trace = vit.trace(PHOTO)
    assert vit.attention_check, vit.attention_check.reason
    assert (trace.prefix, trace.grid, vit.adapter.pooling, vit.classes) == (1, (4, 4), "token", 5)
    with torch.no_grad():
        torch.testing.assert_close(trace.logits, module(trace.pixels), rtol=1e-5, atol=1e-5)
        weights: list[torch.Tensor] = []
        tokens = torch.cat(
            [module.cls_token, module.patch_embed(trace.pixels).flatten(2).transpose(1, 2)], 1
        )
        x = tokens + module.pos_embed
        for layer in module.encoder.layers:
            read = layer.norm1(x) if norm_first else x
            weights.append(
                layer.self_attn(read, read, read, need_weights=True, average_attn_weights=False)[1]
            )
            x = layer(x)
    for block in range(trace.depth):
        same(trace.attention(block), weights[block][0], 1e-6)
        assert not torch.equal(trace.attention(block, 0), trace.attention(block, 1))
    pixels = trace.pixels.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(module(pixels)[0, 3], pixels)
    same(trace.gradients(3).pixels, wanted[0], 1e-5)


class MeanEncoder(nn.Module):
    """An encoder model without CLS that means its patches."""

    def __init__(self, image_size: tuple[int, int] = (16, 24)) -> None:
        super().__init__()
        self.inner = tiny_encoder(size=image_size)
        self.image_size = image_size

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        tokens = self.inner.patch_embed(pixels).flatten(2).transpose(1, 2)
        return self.inner.head(self.inner.encoder(tokens).mean(1))


def test_encoder_that_means_its_patches_is_found_out() -> None:
    vit = wrap_model(MeanEncoder().eval())
    assert (vit.adapter.pooling, vit.adapter.prefix, vit.adapter.grid((16, 24))) == (
        "avg",
        0,
        (4, 6),
    )
    assert explain("rollout", vit.trace(PHOTO)).values.shape == (4, 6)


@pytest.mark.parametrize("variant", ["plain", "no_class_token"])
def test_unfused_attention_is_captured_alike(variant: str) -> None:
    """Whatever timm's ``fused_attn`` flag says, and without touching it."""
    fused, written = (tiny_vit(**VARIANTS[variant]) for _ in range(2))
    for block in written.blocks:
        block.attn.fused_attn = False
    a, b = (wrap_model(module).trace(PHOTO) for module in (fused, written))
    assert b.model.attention_check
    for block in range(3):
        same(a.attention(block), b.attention(block))
        same(a.gradients(1).attention(block), b.gradients(1).attention(block))
    assert not any(block.attn.fused_attn for block in written.blocks)


def test_a_wrong_scale_or_a_lost_call_is_caught() -> None:
    """The acceptance check refuses maps that do not explain what the block handed on."""
    vit = wrap_model(tiny_vit())
    real = vit.adapter.after_merge
    vit.adapter.after_merge = lambda block, merged, gate: real(block, merged, gate) * 1.001  # type: ignore[method-assign]
    vit.trace(PHOTO)
    refused = vit.supports("rollout")
    assert not refused
    assert "differs from what the model used" in str(refused.reason)
    assert vit.supports("saliency")
    with pytest.raises(ModelError, match="differs"):
        explain("attention", vit.trace(PHOTO))

    class Silent(nn.Module):
        def forward(self, x: torch.Tensor, **_: object) -> torch.Tensor:
            return x

    vit = wrap_model(tiny_vit())
    vit.module.blocks[1].attn = Silent()  # a block that no longer attends
    assert "2 attention calls were seen" in str(vit.supports("rollout").reason)


def test_a_batch_equals_its_single_runs() -> None:
    vit = wrap_model(tiny_vit(dtype=torch.float32))
    batch = vit.trace([PHOTO, OTHER, PHOTO, OTHER])
    assert len(batch) == 4
    for i, photo in enumerate((PHOTO, OTHER, PHOTO, OTHER)):
        single = vit.trace(photo)
        torch.testing.assert_close(batch[i].logits, single.logits, rtol=1e-5, atol=1e-5)
        same(batch[i].attention(1), single.attention(1), 1e-5)
        assert batch[i].top(2)[0][0] == single.top(2)[0][0]
    assert batch[-1] is batch[3]
    with pytest.raises(IndexError):
        batch[4]
    with pytest.raises(ValueError, match="choose one"):
        batch.attention(0)


def test_no_attention_matrix_is_kept() -> None:
    trace = wrap_model(tiny_vit(dtype=torch.float32)).trace(PHOTO)
    for call in trace.calls:
        assert call.v is None
        assert call.output is None
        for kept in (call.q, call.k):
            assert kept.untyped_storage().nbytes() == kept.numel() * 4


def test_inside_no_grad_and_inference_mode_and_with_frozen_weights() -> None:
    module = tiny_vit()
    expected = wrap_model(module).trace(PHOTO).gradients(2).pixels
    module.requires_grad_(False)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            vit = wrap_model(module)
            trace = vit.trace(PHOTO)
            same(trace.gradients(2).pixels, expected)
            for name in ("saliency", "smoothgrad", "integrated_gradients", "occlusion", "rollout"):
                assert np.isfinite(explain(name, trace, 2).values).all()
    assert not any(p.requires_grad for p in module.parameters())


def test_wrapped_models_are_unwrapped() -> None:
    module = tiny_vit()
    assert wrap_model(nn.DataParallel(module)).module is module


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_maps_are_finite_float32(dtype: torch.dtype) -> None:
    exact = explain("rollout", wrap_model(tiny_vit(dtype=torch.float32)).trace(PHOTO))
    half = explain("rollout", wrap_model(tiny_vit(dtype=dtype)).trace(PHOTO))
    assert half.values.dtype == np.float32
    np.testing.assert_allclose(half.values, exact.values, atol=5e-3)


def test_the_grid_follows_the_input_and_the_prefix() -> None:
    for variant, prefix, grid in (
        ("registers", 3, (4, 4)),
        ("rectangle", 1, (3, 5)),
        ("distilled", 2, (4, 4)),
    ):
        trace: Trace = wrap_model(tiny_vit(**VARIANTS[variant])).trace(PHOTO)
        assert (trace.prefix, trace.grid) == (prefix, grid)
        assert len(trace.model.adapter.prefix_names) == prefix


def test_dynamic_size_models_follow_the_given_size() -> None:
    module = tiny_vit(dynamic_img_size=True)
    vit = wrap_model(module, size=(24, 32))
    trace = vit.trace(PHOTO)
    assert trace.grid == (6, 8)
    assert explain("rollout", trace).values.shape == (6, 8)


def test_refusals_are_sentences() -> None:
    import timm

    with pytest.raises(ModelError, match="not read yet"):
        wrap_model(timm.create_model("resnet18").eval())
    pooled = wrap_model(tiny_vit(global_pool="max"))
    assert not pooled.supports("rollout")
    assert "max" in str(pooled.supports("rollout").reason)
    assert pooled.supports("saliency")
    assert pooled.supports("attention", row=0)
    assert explain("attention", pooled.trace(PHOTO), row=0).values.shape == (4, 4)
    with pytest.raises(ModelError, match="no single row"):
        explain("attention", pooled.trace(PHOTO))
    training = wrap_model(tiny_vit())
    training.module.train()
    with pytest.raises(ModelError, match="eval"):
        training.trace(PHOTO)
    trace = wrap_model(tiny_vit()).trace(PHOTO)
    for call, message in (
        (lambda: trace.attention(3), "block must be a whole number in 0..2, got 3"),
        (lambda: trace.attention(0, 2), "head must be a whole number in 0..1, got 2"),
        (lambda: trace.attention(0, rows=[17]), "row must be a whole number in 0..16, got 17"),
        (lambda: trace.tensor("middle", 0), "was not kept"),
        (lambda: trace.model.trace(PHOTO, keep=("nonsense",)), "cannot keep nonsense"),
        (lambda: trace.model.trace([]), "At least one Photo"),
    ):
        with pytest.raises(ValueError, match=message.replace(".", r"\.")):
            call()


def test_whole_numbers_of_any_kind_are_places() -> None:
    trace = wrap_model(tiny_vit()).trace([PHOTO, OTHER])[np.int64(1)]
    rows = trace.attention(np.int64(0), torch.tensor(1), np.array([2, 0]))
    assert torch.equal(rows, trace.attention(0, 1, [2, 0]))
    assert trace.top(np.int64(2)) == trace.top(2)


@pytest.mark.parametrize("count", [-1, "5", 2.5, None, True])
def test_top_takes_a_whole_number(count: Any) -> None:
    with pytest.raises(ValueError, match="whole number from 0 up"):
        wrap_model(tiny_vit()).trace(PHOTO).top(count)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ("lion.jpg", "str"),
        (b"x", "bytes"),
        (None, "NoneType"),
        (5, "int"),
        ([PHOTO, "a.jpg"], "str"),
        (PHOTO.pixels, "ndarray"),
        (PHOTO.to_pil(), "Image"),
        (torch.zeros(1, 3, 16, 16), "Tensor"),
    ],
)
def test_only_photos_are_traced(wrong: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"{kind} came; read it with load_photo"):
        wrap_model(tiny_vit()).trace(wrong)
