"""Taking tokens out: the model answers as if it attended to nothing there, or it is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import ModelError, VisionModel, load_photo, wrap_model
from explainers.methods.ranks import spearman
from explainers.trace import Trace
from tests import slow_vit
from tests.module_state import state
from tests.perturbation import CLASSIFIERS, PHOTO, POOLS, close, run, slow_score, traced
from tests.tiny import tiny_encoder, tiny_photo_array, tiny_pixels, tiny_vit


@pytest.mark.parametrize("variant", POOLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_tokens_kept_give_the_models_own_answer_bit_for_bit(
    variant: str, dtype: torch.dtype
) -> None:
    vit = wrap_model(tiny_vit(**POOLS[variant], dtype=dtype))
    size = vit.preprocessing.size
    pixels = tiny_pixels(3, size, dtype=dtype)
    rows, columns = vit.adapter.grid(size)
    everything = torch.arange(rows * columns).expand(3, -1)
    with torch.no_grad():
        assert vit.adapter.removal_support()
        assert torch.equal(vit.logits(pixels, everything), vit.module(pixels))
        one = vit.logits(pixels[:1], everything)  # one photo, three sets
        assert torch.equal(one, vit.module(pixels[:1].expand(3, -1, -1, -1)))


def test_another_size_than_the_trained_one_keeps_its_positions() -> None:
    vit = wrap_model(tiny_vit(dynamic_img_size=True))
    pixels = tiny_pixels(1, (20, 24))
    with torch.no_grad():
        everything = torch.arange(5 * 6)[None]
        assert torch.equal(vit.logits(pixels, everything), vit.module(pixels))


@pytest.mark.parametrize("variant", [v for v in POOLS if v != "headless"])
def test_a_removed_token_cannot_influence_the_answer(variant: str) -> None:
    trace = traced(variant)
    (rows, columns), vit = trace.grid, trace.model
    gone = [0, columns, rows * columns - 1]
    keep = torch.tensor([[i for i in range(rows * columns) if i not in gone]])
    spoilt = trace.pixels.clone()
    for patch in gone:
        y, x = 4 * (patch // columns), 4 * (patch % columns)
        spoilt[0, :, y : y + 4, x : x + 4] = float("nan")
    with torch.no_grad():
        answer = vit.logits(trace.pixels, keep)
        assert torch.equal(vit.logits(spoilt, keep), answer)
        assert answer.isfinite().all()
        assert not torch.allclose(answer, trace.logits)
        assert vit.logits(spoilt).isnan().any()  # whole, the photo is spoilt indeed


def remove(monkeypatch: pytest.MonkeyPatch, trace: Trace, gone: set[int]) -> None:
    """The slow twin without these patches: their rows are struck out after positions."""
    embed = slow_vit.embed

    def fewer(module: nn.Module, pixels: Tensor) -> Tensor:
        tokens = embed(module, pixels)
        rows = [i for i in range(len(tokens)) if i - trace.prefix not in gone]
        return tokens[rows]

    monkeypatch.setattr(slow_vit, "embed", fewer)


@pytest.mark.parametrize("variant", CLASSIFIERS)
@pytest.mark.parametrize("window", [1, 2])
def test_occlusion_by_removal_equals_striking_tokens_out(
    variant: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = traced(variant)
    rows, columns = trace.grid
    whole = slow_score(trace, trace.pixels[0], against=4)
    heat = run("occlusion", trace, fill="remove", window=window, against=4)
    for i in range(0, rows, window):
        for j in range(0, columns, window):  # the last squares of 3×5 are cut off: fewer patches
            square = [
                (a, b)
                for a in range(i, min(i + window, rows))
                for b in range(j, min(j + window, columns))
            ]
            with monkeypatch.context() as patch:
                remove(patch, trace, {a * columns + b for a, b in square})
                drop = whole - slow_score(trace, trace.pixels[0], against=4)
            close([heat.values[place] for place in square], drop)
    assert not np.allclose(heat.values, run("occlusion", trace, against=4, window=window).values)
    assert not heat.figures


def test_removal_on_the_embedded_model_equals_attending_to_nothing_there(
    embedded: VisionModel,
) -> None:
    """The real model in float32: bit-equal with all tokens; without some, 1e-5 from timm's own
    pass in which no token attends to them."""
    trace = embedded.trace(load_photo(tiny_photo_array(200, 200)))
    rows, columns = trace.grid
    with torch.no_grad():
        everything = torch.arange(rows * columns)[None]
        assert torch.equal(embedded.logits(trace.pixels, everything), trace.logits)
        heat = run("occlusion", trace, fill="remove", window=8)
        seen = torch.ones(trace.tokens, dtype=torch.bool)
        for row in range(8):
            start = trace.prefix + row * columns
            seen[start : start + 8] = False
        masked = embedded.module(trace.pixels, attn_mask=seen.expand(trace.tokens, -1))
    drop = float(trace.probabilities[0, 1] - masked.softmax(-1)[0, 1])
    assert abs(drop) > 1e-7
    close(heat.values[:8, :8], np.full((8, 8), drop), 1e-5 * float(trace.probabilities[0, 1]))


def test_removal_leaves_the_shared_model_alone_and_threads_do_not_meet() -> None:
    trace = traced(dtype=torch.float32)
    before = state(trace.model.module)
    fills = ["remove", "mean", "remove", "blur"] * 6
    serial = [run("occlusion", trace, fill=fill).values.tobytes() for fill in fills]
    with ThreadPoolExecutor(8) as pool:
        parallel = pool.map(lambda f: run("occlusion", trace, fill=f).values.tobytes(), fills)
        assert list(parallel) == serial
    assert state(trace.model.module) == before


def test_removal_is_refused_where_the_forward_pass_is_not_known() -> None:
    trace = wrap_model(tiny_encoder(), size=(16, 16)).trace(PHOTO)
    support = trace.model.adapter.removal_support()
    assert not support
    assert "nn.TransformerEncoder" in str(support.reason)
    for settings in ({"fill": "remove"}, {"compare": "yes"}):
        with pytest.raises(ModelError) as caught:
            run("occlusion", trace, **settings)
        assert str(caught.value) == support.reason
    with pytest.raises(ModelError, match="fill the hidden patches"):
        trace.model.adapter.forward_tokens(trace.pixels, torch.zeros(1, 1, dtype=torch.long))
    assert np.isfinite(run("occlusion", trace).values).all()

    module = tiny_vit()
    module.__class__ = type("Own", (type(module),), {"forward": lambda self, x: self.head(x)})
    assert not wrap_model(module).adapter.removal_support()
    patched = tiny_vit()
    patched.forward = lambda pixels: pixels
    assert not wrap_model(patched).adapter.removal_support()


def test_removal_is_refused_where_pieces_do_not_make_the_whole() -> None:
    module = tiny_vit()
    module.register_forward_hook(lambda module, given, answer: answer * 2)
    trace = wrap_model(module).trace(PHOTO)
    with pytest.raises(ModelError, match="does more than its forward pass shows"):
        run("occlusion", trace, fill="remove", score="logit")


def test_a_model_must_be_left_some_token() -> None:
    with pytest.raises(ModelError, match="nothing to look at"):
        run("occlusion", traced(), fill="remove", window=4)
    assert run("occlusion", traced(), window=4).flat  # a fill can cover everything


@pytest.mark.parametrize("fill", ["remove", "mean", "blur"])
def test_comparing_says_whether_both_ways_of_hiding_agree(fill: str) -> None:
    trace = traced("rectangle")
    other = "mean" if fill == "remove" else "remove"
    seen: list[tuple[int, int]] = []
    heat = run(
        "occlusion", trace, fill=fill, compare="yes", progress=lambda *step: seen.append(step)
    )
    assert seen[-1][1] == 2 * 16
    close(heat.values, run("occlusion", trace, fill=fill).values, 0)
    agreement = spearman(heat.values, run("occlusion", trace, fill=other).values)
    assert heat.figures == {"agreement": agreement}
    assert heat.notes[0].key == ("hiding_agrees" if agreement >= 0.7 else "hiding_disagrees")
    assert f"{agreement:.2f}" in heat.notes[0]


def test_filling_and_removing_agree_on_a_model_that_only_sums_patches() -> None:
    """No attention, no MLP: filled with the mean colour or gone, the order stays the same."""
    trace = traced("average")
    module = trace.model.module
    with torch.no_grad():
        for block in module.blocks:
            block.attn.proj.weight.zero_()
            block.attn.proj.bias.zero_()
            block.mlp.fc2.weight.zero_()
            block.mlp.fc2.bias.zero_()
        module.pos_embed.zero_()
    module.norm, module.fc_norm = nn.Identity(), nn.Identity()
    trace = trace.model.trace(PHOTO)
    heat = run("occlusion", trace, compare="yes", score="logit")
    assert heat.figures["agreement"] == pytest.approx(1)
    assert heat.notes[0].key == "hiding_agrees"


def test_spearman_shares_ranks_among_equals() -> None:
    a, b = np.array([1.0, 2, 2, 5]), np.array([[10.0, 7], [7, 1]])
    assert spearman(a, b) == pytest.approx(-1)
    assert spearman(a, np.array([1, 3, 2, 4])) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert spearman(a, np.ones(4)) == 0
    assert spearman(np.ones(4), np.ones(4)) == 1
