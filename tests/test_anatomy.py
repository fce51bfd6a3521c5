"""The model step by step: every tensor equals a slow twin's, the lens ends in the answer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from explainers import load_photo, wrap_model
from explainers.models.vision_model import VisionModel
from explainers.models.vit import VisionTransformer
from explainers.views.anatomy import Anatomy
from explainers.views.block_tensors import BlockTensors
from explainers.views.lens import lens, patch_answers
from explainers.views.steps import FORMULAS, STEPS
from tests.families import build
from tests.slow_vit import norm, slow_forward
from tests.tiny import (
    DEPTH,
    HEADS,
    PATCH,
    SQUARE,
    VARIANTS,
    tiny_encoder,
    tiny_photo_array,
    tiny_vit,
)

PHOTO = load_photo(tiny_photo_array())
MORE = {
    **VARIANTS,
    "pre_norm": {"pre_norm": True},
    "map": {"global_pool": "map", "class_token": False},
    "layer_scale": {"init_values": 0.1},
}


def opened(vit: VisionModel) -> Anatomy:
    return Anatomy(vit.trace(PHOTO))


def timm_anatomy(variant: str = "plain") -> tuple[Any, Anatomy]:
    module = tiny_vit(**MORE[variant])
    return module, opened(wrap_model(module))


def reference(positions: Any) -> VisionModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = VisionTransformer(16, 4, 16, 3, 2, 32, 5, positions=positions)
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return wrap_model(module.double().eval())


def close(found: Any, expected: Any, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


def test_every_step_has_a_formula() -> None:
    assert {*FORMULAS} == {*STEPS}


@pytest.mark.parametrize("variant", ["plain", "rectangle", "registers", "average", "headless"])
def test_tensors_equal_the_slow_twin(variant: str) -> None:
    module, anatomy = timm_anatomy(variant)
    trace = anatomy.trace
    slow = slow_forward(module, trace.pixels[0])
    for i in range(len(anatomy.patches)):  # each patch: row by row, pixel by pixel, RGB
        r, c = divmod(i, trace.grid[1])
        square = trace.pixels[0, :, r * PATCH : (r + 1) * PATCH, c * PATCH : (c + 1) * PATCH]
        flat = [square[k, y, x] for y in range(PATCH) for x in range(PATCH) for k in range(3)]
        assert anatomy.patches[i].tolist() == flat
    close(anatomy.embedding, anatomy.patches @ anatomy.filters.T + module.patch_embed.proj.bias)
    close(anatomy.filter_bias, module.patch_embed.proj.bias)
    close(anatomy.positions, module.pos_embed[0])
    close(anatomy.tensor("positioned"), slow.stream[0])
    for block in range(DEPTH):
        layer, open_block = module.blocks[block], anatomy.block(block)
        stream, middle = slow.stream[block], slow.middle[block]
        close(anatomy.tensor(f"input.{block}"), stream)
        close(anatomy.tensor(f"norm1.{block}"), norm(stream, layer.norm1))
        close(anatomy.tensor(f"attention.{block}"), slow.A[block])
        close(anatomy.tensor(f"scores.{block}").softmax(-1), slow.A[block])
        q, k = open_block.q, open_block.k
        for h, i, j in ((0, 0, 1), (HEADS - 1, 3, 2)):
            dot = sum(float(a * b) for a, b in zip(q[h, i], k[h, j], strict=True))
            assert float(anatomy.scores(block, h, i)[j]) == pytest.approx(
                dot / math.sqrt(q.shape[-1])
            )
        close(slow.A[block] @ open_block.v, slow.o[block])
        close(anatomy.tensor(f"heads.{block}"), torch.cat(list(slow.o[block]), 1))
        close(stream + anatomy.tensor(f"projected.{block}"), middle)
        close(anatomy.tensor(f"middle.{block}"), middle)
        read = norm(middle, layer.norm2)
        close(anatomy.tensor(f"norm2.{block}"), read)
        hidden = read @ layer.mlp.fc1.weight.T + layer.mlp.fc1.bias
        close(anatomy.tensor(f"hidden.{block}"), hidden)
        close(anatomy.tensor(f"output.{block}"), slow.stream[block + 1])
    if trace.model.classes:
        close(anatomy.tensor("logits"), slow.logits)
        close(anatomy.head_weight @ anatomy.pooled + anatomy.head_bias, slow.logits)


@pytest.mark.parametrize("variant", MORE)
def test_tensors_are_the_traces_own(variant: str) -> None:
    _, anatomy = timm_anatomy(variant)
    trace = anatomy.trace
    for name in ("input", "norm1", "heads", "middle", "norm2", "output"):
        assert torch.equal(anatomy.tensor(f"{name}.1"), trace.features(name, 1)), name
    opened_block = anatomy.block(1)
    assert isinstance(opened_block, BlockTensors)
    assert torch.equal(opened_block.v, trace.values(1))
    assert torch.equal(opened_block.q, trace.calls[1].q[0])
    assert torch.equal(anatomy.tensor("attention.1"), trace.attention(1))
    assert anatomy.prefixed.shape == (trace.tokens, 16)
    close(anatomy.positions[trace.prefix :], trace.model.adapter.patch_positions())
    assert anatomy.pre_norm is (variant == "pre_norm")


@pytest.mark.parametrize("variant", MORE)
def test_the_lens_ends_in_the_models_answer(variant: str) -> None:
    module, anatomy = timm_anatomy(variant)
    trace, found = anatomy.trace, anatomy.lens
    assert found.similarity.shape == (DEPTH + 1,)
    assert found.similarity[-1] == pytest.approx(1)
    weights = trace.model.adapter.decision_weights(trace.tokens)
    last = weights @ trace.features("output", DEPTH - 1)
    for block in range(DEPTH):
        vector = weights @ trace.features("input", block)
        cosine = float(vector @ last / (vector.norm() * last.norm()))
        assert found.similarity[block] == pytest.approx(cosine)
    if not trace.model.classes:
        assert not found.support
        assert found.logits is None
        return
    assert found.logits is not None
    assert torch.equal(found.logits[-1:], trace.logits)  # type: ignore[arg-type]
    early = type(module).forward_head(module, module.norm(trace.features("input", 1)[None]))
    close(found.logits[1:2], early)


def test_a_model_of_fewer_blocks_is_what_the_lens_says() -> None:
    _, anatomy = timm_anatomy()
    shorter = tiny_vit()
    shorter.blocks = shorter.blocks[:2]
    close(anatomy.lens.logits[2:3], wrap_model(shorter).trace(PHOTO).logits)  # type: ignore[index]


def test_each_patch_is_read_as_if_it_were_the_deciding_token() -> None:
    module, anatomy = timm_anatomy("registers")
    answers = patch_answers(anatomy.trace, 1)
    assert answers.shape == (16, 5)
    tokens = anatomy.trace.features("output", 1)
    for patch in (0, 7):
        moved = tokens[None].clone()
        moved[0, 0] = tokens[anatomy.trace.prefix + patch]  # CLS is what this model reads
        expected = module.forward_head(module.norm(moved)).softmax(-1)
        close(answers[patch : patch + 1], expected)


def test_repainting_keeps_what_the_projection_kept() -> None:
    _, anatomy = timm_anatomy()
    again = anatomy.repainted
    close(again @ anatomy.filters.T + anatomy.filter_bias, anatomy.embedding, 1e-8)
    close(
        torch.linalg.lstsq(anatomy.filters, (anatomy.embedding - anatomy.filter_bias).T).solution
        if anatomy.filters.shape[0] >= anatomy.filters.shape[1]
        else again.T,
        again.T,
        1e-6,
    )
    assert torch.all(again.norm(dim=1) <= anatomy.patches.norm(dim=1) + 1e-9)


@pytest.mark.parametrize("positions", ["1d", "2d", "relative", "none"])
def test_the_reference_vit_is_read_alike(positions: str) -> None:
    vit = reference(positions)
    anatomy = opened(vit)
    assert all(anatomy.support(step) for step in STEPS)
    module: Any = vit.module
    close(anatomy.tensor("positioned"), module.tokens(anatomy.trace.pixels)[0])
    close(anatomy.prefixed[0], module.cls_token[0, 0])
    assert anatomy.has_positions is (positions in ("1d", "2d"))
    assert torch.equal(anatomy.lens.logits[-1], anatomy.tensor("logits"))  # type: ignore[index]
    bias = anatomy.attention_bias(0, 1, 3)
    if positions == "relative":
        close(bias, module.positions.bias()[0, 1, 3])
    else:
        assert bias is None
    close(anatomy.tensor("scores.0").softmax(-1), anatomy.tensor("attention.0"))


@pytest.mark.parametrize("norm_first", [True, False])
def test_an_encoder_shows_what_it_can_and_says_why_not_the_rest(norm_first: bool) -> None:
    anatomy = opened(wrap_model(tiny_encoder(norm_first=norm_first), size=SQUARE))
    module: Any = anatomy.trace.model.module
    close(anatomy.embedding, module.patch_embed(anatomy.trace.pixels)[0].flatten(1).T)
    close(anatomy.head_weight @ anatomy.pooled + anatomy.head_bias, anatomy.tensor("logits"))
    close(anatomy.tensor("scores.2").softmax(-1), anatomy.tensor("attention.2"))
    for step in ("norm", "merge", "mlp", "positions", "blocks"):
        support = anatomy.support(step)
        assert bool(support) is norm_first, step
        assert support or support.reason
    if norm_first:
        close(anatomy.positions, module.pos_embed[0])
        block = anatomy.block(1)
        close(block.input + block.projected, block.middle)  # type: ignore[operator]
        assert anatomy.lens.logits is None
        assert not anatomy.lens.support
    else:
        with pytest.raises(ValueError, match="norm"):
            anatomy.tensor("norm1.0")


def test_steps_that_cannot_be_shown_say_why() -> None:
    _, distilled = timm_anatomy("distilled")
    assert "two heads" in str(distilled.support("head").reason)
    with pytest.raises(ValueError, match="two heads"):
        distilled.tensor("pooled")
    _, headless = timm_anatomy("headless")
    assert [step for step in STEPS if not headless.support(step)] == ["head", "logits"]
    with pytest.raises(ValueError, match="no classification head"):
        headless.tensor("logits")
    with pytest.raises(ValueError, match="no classification head"):
        headless.patch_answers(0)


def test_blocks_that_attend_inside_windows_are_refused() -> None:
    module = build("SAM, padded")
    anatomy = Anatomy(wrap_model(module).trace(load_photo(tiny_photo_array(20, 30))))
    assert "inside windows" in str(anatomy.support("scores").reason)
    for read in (lambda: anatomy.block(0), lambda: anatomy.scores(0, 0, 0)):
        with pytest.raises(ValueError, match="inside windows"):
            read()


def test_nothing_on_the_model_changes() -> None:
    module, anatomy = timm_anatomy()
    before = {name: p.clone() for name, p in module.state_dict().items()}
    for key in ("embedding", "norm1.2", "attention.0", "pooled"):
        anatomy.tensor(key)
    lens(anatomy.trace)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
    assert all(p.grad is None for p in module.parameters())
    assert all(torch.equal(before[name], p) for name, p in module.state_dict().items())
    assert np.isfinite(anatomy.pooled.numpy()).all()
