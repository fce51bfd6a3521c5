"""RISE, ViT-CX, Kernel SHAP, LIME and occlusion, and the removal of tokens they stand on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import FeatureAblation, ShapleyValues
from torch import Tensor, nn
from torch.nn import functional as F

from explainers import HeatMap, ModelError, VisionModel, explain, load_photo, wrap_model
from explainers.methods.baselines import BASELINES, baseline
from explainers.methods.clusters import complete_linkage
from explainers.methods.hiding import sampled_squares, squares
from explainers.methods.kernel_shap import _drawn_pairs, shapley
from explainers.methods.lime import linear_fit
from explainers.methods.ranks import spearman
from explainers.methods.rise import Masks
from explainers.models.adapters import YES, Adapter
from explainers.models.preprocessing import Preprocessing
from explainers.trace import Trace
from tests import slow_vit
from tests.closed_forms import closed
from tests.test_sharing import state
from tests.tiny import LABELS, VARIANTS, tiny_encoder, tiny_photo_array, tiny_pixels, tiny_vit

PHOTO = load_photo(tiny_photo_array())
CLASSIFIERS = [name for name in VARIANTS if name != "headless"]
POOLS: dict[str, dict[str, Any]] = {
    **VARIANTS,
    "attention_pool": {"global_pool": "map", "class_token": False},
    "all_tokens": {"global_pool": "avg", "pool_include_prefix": True},
    "max": {"global_pool": "max"},
    "pre_norm": {"pre_norm": True},
    "positions_for_patches_only": {"no_embed_class": True},
    "any_size": {"dynamic_img_size": True},
}


def traced(variant: str = "plain", **more: Any) -> Trace:
    return wrap_model(tiny_vit(**{**POOLS[variant], **more}), labels=LABELS).trace(PHOTO)


def run(name: str, trace: Trace, target: int | None = 1, **more: Any) -> HeatMap:
    heat = explain(name, trace, target, **more)
    assert isinstance(heat, HeatMap)
    return heat


def keys(heat: HeatMap) -> list[str]:
    return [note.key for note in heat.notes]


def close(values: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(values), np.asarray(wanted), rtol=0, atol=tolerance)


def slow_score(
    trace: Trace, pixels: Tensor, score: str = "probability", against: int | None = None
) -> float:
    """The number explained for class 1, from the forward pass written out."""
    with torch.no_grad():
        logits = slow_vit.slow_forward(trace.model.module, pixels).logits
    answer = logits.softmax(-1) if score == "probability" else logits
    return float(answer[1] if against is None else answer[1] - answer[against])


def hide(trace: Trace, hidden: set[int], fill: str) -> Tensor:
    """The model's input with these patches (in reading order) filled, cell by cell."""
    pixels, nothing = trace.pixels[0].clone(), baseline(trace, fill)
    (height, width), columns = trace.model.adapter.patch, trace.grid[1]
    for patch in hidden:
        y, x = patch // columns * height, patch % columns * width
        box = (slice(None), slice(y, y + height), slice(x, x + width))
        pixels[box] = nothing[box]
    return pixels


# -- taking tokens out -------------------------------------------------------------------------


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


# -- what all share ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rise", "vit_cx", "kernel_shap", "lime"])
def test_a_seed_names_the_draws(name: str) -> None:
    few = {"rise": {"masks": 20}, "vit_cx": {}}.get(name, {"samples": 64})
    trace = traced()
    values = run(name, trace, seed=3, **few).values
    assert values.tobytes() == run(name, traced(), seed=3, **few).values.tobytes()
    assert not np.allclose(values, run(name, trace, seed=4, **few).values, atol=1e-12)


def test_squares_are_as_many_as_the_samples_suffice_for() -> None:
    assert squares((3, 5), 2).tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]
    assert int(sampled_squares((14, 14), 0, 1024).max()) == 195  # one patch each
    assert int(sampled_squares((24, 24), 0, 1024).max()) == 143  # 2 × 2
    assert int(sampled_squares((37, 37), 0, 1024).max()) == 168  # 3 × 3
    assert int(sampled_squares((24, 24), 1, 4 * 576).max()) == 575
    with pytest.raises(ModelError, match=r"1024 samples are too few for the 576 parts.*2304"):
        sampled_squares((24, 24), 1, 1024)
    assert int(sampled_squares((3, 3), 0, 2).max()) == 0


class Cropped(nn.Module):
    """y_c = Σ w_c · x over whole 3×5 patches of an 8×12 input; the rest is cut off."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(6)
        self.w = nn.Parameter(torch.randn(2, 3, 6, 10, generator=generator, dtype=torch.float64))

    def forward(self, pixels: Tensor) -> Tensor:
        return pixels[..., :6, :10].flatten(1) @ self.w.flatten(1).T


@pytest.mark.parametrize("name", ["occlusion", "kernel_shap", "lime"])
def test_pixels_beyond_the_last_whole_patch_do_not_matter(name: str) -> None:
    adapter = Adapter()
    adapter.patch, adapter.classes = (3, 5), 2
    preprocessing = Preprocessing((8, 12), (0.5,) * 3, (0.5,) * 3, crop_pct=1.0)
    vit = VisionModel(Cropped().eval(), "cropped", preprocessing, adapter, classes=2)
    vit.attention_check = YES
    pixels = tiny_pixels(1, (8, 12))
    geometry = preprocessing.geometry(PHOTO, (3, 5))
    trace = Trace(vit, [PHOTO], [geometry], pixels, vit.logits(pixels).detach(), [], {})
    more = {"ridge": 0.0} if name == "lime" else {}
    heat = run(name, trace, fill="grey", score="logit", **more)
    product = (vit.module.w[1] * pixels[0, :, :6, :10]).detach().sum(0)
    close(heat.values, product.reshape(2, 3, 2, 5).sum((1, 3)), 1e-9)


# -- RISE ----------------------------------------------------------------------------------------


def slow_masks(
    count: int, cells: int, share: float, size: tuple[int, int], seed: int
) -> np.ndarray:
    """Bilinear masks pixel by pixel, from the same draws."""
    generator = torch.Generator().manual_seed(seed)
    grids = (torch.rand(count, 1, cells, cells, generator=generator) < share)[:, 0].numpy()
    cell = [-(-side // cells) for side in size]
    shifts = [torch.randint(side, (count,), generator=generator).numpy() for side in cell]
    masks = np.zeros((count, *size))

    def between(place: int, side: int) -> tuple[int, int, float]:
        """The two cells a pixel of the spread grid lies between, and how far along."""
        at = min(max((place + 0.5) * cells / ((cells + 1) * side) - 0.5, 0), cells - 1)
        return int(at), min(int(at) + 1, cells - 1), at - int(at)

    for i in range(count):
        for y in range(size[0]):
            for x in range(size[1]):
                a, b, v = between(y + shifts[0][i], cell[0])
                c, d, u = between(x + shifts[1][i], cell[1])
                top = (1 - u) * grids[i, a, c] + u * grids[i, a, d]
                bottom = (1 - u) * grids[i, b, c] + u * grids[i, b, d]
                masks[i, y, x] = (1 - v) * top + v * bottom
    return masks


@pytest.mark.parametrize("variant", ["plain", "rectangle", "average_registers"])
@pytest.mark.parametrize(("score", "fill"), [("probability", "mean"), ("logit", "blur")])
def test_rise_equals_masking_one_by_one(variant: str, score: str, fill: str) -> None:
    trace = traced(variant)
    photo, nothing = trace.pixels[0], baseline(trace, fill)
    size = tuple(photo.shape[1:])
    masks = slow_masks(20, 3, 0.4, size, 5)  # type: ignore[arg-type]
    assert masks.min() >= 0
    assert masks.max() <= 1
    scores = []
    for mask in torch.from_numpy(masks):
        scores.append(slow_score(trace, mask * photo + (1 - mask) * nothing, score, against=2))
    scores_array = np.array(scores)
    settings = {"masks": 20, "cells": 3, "share": 0.4, "seed": 5, "score": score, "fill": fill}
    paper = run("rise", trace, against=2, level="zero", **settings)
    close(paper.values, np.tensordot(scores_array, masks, 1) / 20 / 0.4)
    centred = run("rise", trace, against=2, **settings)
    above = (scores_array - scores_array.mean())[:, None, None]
    close(centred.values, (above * masks / 0.4).mean(0))
    terms = above * (masks - 0.4) / 0.4
    assert centred.figures["average_score"] == pytest.approx(scores_array.mean())
    error = np.sqrt((terms.var(0, ddof=1) / 20).mean())
    assert centred.figures["standard_error"] == pytest.approx(error)
    assert centred.notes[0].key == "sampling_error"
    assert f"{error:.2g}" in centred.notes[0]


def expected_rise(trace: Trace, cells: int, share: float, fill: str) -> np.ndarray:
    """E[(f − E f) M(λ)]/share of a linear model: Σ_x a(x) Cov(M(x), M(λ))/share."""
    w, x = trace.model.module.w.detach()[1], trace.pixels[0]
    a = (w * (x - baseline(trace, fill))).sum(0)  # (H, W)
    height, width = a.shape
    tall, wide = -(-height // cells), -(-width // cells)
    basis = torch.eye(cells * cells, dtype=torch.float64).reshape(-1, 1, cells, cells)
    spread = F.interpolate(
        basis, [(cells + 1) * tall, (cells + 1) * wide], mode="bilinear", align_corners=False
    )[:, 0]
    total = torch.zeros_like(a)
    for top in range(tall):
        for left in range(wide):
            cell = spread[:, top : top + height, left : left + width]  # each cell's part in a mask
            total += torch.einsum("cyx,c->yx", cell, torch.einsum("cyx,yx->c", cell, a))
    return (total / (tall * wide) * (1 - share)).numpy()


def test_rise_of_a_linear_model_is_the_closed_form_within_its_error() -> None:
    trace = closed()
    wanted = expected_rise(trace, 3, 0.3, "grey")
    settings = {"cells": 3, "share": 0.3, "fill": "grey", "score": "logit"}
    heat = run("rise", trace, masks=10_000, **settings)
    error = heat.figures["standard_error"]
    assert error < 0.05 * np.abs(wanted).max()
    assert np.abs(heat.values - wanted).max() < 5 * error
    assert np.sqrt(np.square(heat.values - wanted).mean()) < 2 * error
    paper = run("rise", trace, masks=10_000, level="zero", **settings)
    assert np.abs(paper.values - paper.figures["average_score"] - wanted).max() < (
        5 * paper.figures["standard_error"]
    )


@pytest.mark.parametrize("level", ["average", "zero"])
def test_rises_standard_error_is_the_spread_over_seeds(level: str) -> None:
    trace = closed()
    settings = {"masks": 60, "cells": 3, "score": "logit", "level": level}
    heats = [run("rise", trace, seed=seed, **settings) for seed in range(80)]
    spread = np.sqrt(np.var([heat.values for heat in heats], axis=0, ddof=1).mean())
    stated = np.mean([heat.figures["standard_error"] for heat in heats])
    assert stated == pytest.approx(spread, rel=0.1)


def test_masks_are_the_same_whenever_drawn() -> None:
    masks = Masks(9, 4, 0.5, (10, 14), 1)
    assert torch.equal(masks.drawn(torch.tensor([2, 5])), masks.drawn(masks.indices)[[2, 5]])
    close(masks.drawn(masks.indices), slow_masks(9, 4, 0.5, (10, 14), 1), 1e-12)
    many = Masks(4000, 4, 0.3, (10, 14), 2)
    close(many.drawn(many.indices).mean(0), np.full((10, 14), 0.3), 0.04)


# -- Kernel SHAP ---------------------------------------------------------------------------------


def exact_shapley(trace: Trace, players: list[set[int]], fill: str, score: str) -> list[float]:
    """Σ over sets without the player of |S|!(n−|S|−1)!/n! (f(S ∪ player) − f(S))."""
    n, everyone = len(players), set(range(len(players)))
    value: dict[frozenset[int], float] = {}
    for size in range(n + 1):
        for chosen in combinations(range(n), size):
            hidden = set().union(*(players[i] for i in everyone - set(chosen)))
            value[frozenset(chosen)] = slow_score(trace, hide(trace, hidden, fill), score)
    found = []
    for player in range(n):
        total = 0.0
        for present, worth in value.items():
            if player not in present:
                k = len(present)
                share = factorial(k) * factorial(n - k - 1) / factorial(n)
                total += share * (value[present | {player}] - worth)
        found.append(total)
    return found


@pytest.mark.parametrize("variant", ["plain", "distilled", "no_class_token"])
@pytest.mark.parametrize("score", ["probability", "logit"])
def test_shap_of_all_sets_is_the_exact_shapley_value(variant: str, score: str) -> None:
    trace = traced(variant, size=(8, 12))  # 2×3 patches
    heat = run("kernel_shap", trace, score=score, fill="black", samples=62)
    players = [{i} for i in range(6)]
    close(heat.values.ravel(), exact_shapley(trace, players, "black", score))
    assert heat.figures["standard_error"] == 0
    assert heat.notes[0].key == "shapley_exact"
    assert run("kernel_shap", trace, samples=61).notes[0].key == "sampling_error"


def test_shap_of_nine_patches_and_of_squares() -> None:
    trace = traced(size=(12, 12))
    heat = run("kernel_shap", trace)
    close(heat.values.ravel(), exact_shapley(trace, [{i} for i in range(9)], "mean", "probability"))
    squares_heat = run("kernel_shap", trace, window=2)
    cells = [{0, 1, 3, 4}, {2, 5}, {6, 7}, {8}]
    values = exact_shapley(trace, cells, "mean", "probability")
    for cell, value in zip(cells, values, strict=True):
        close(squares_heat.values.ravel()[list(cell)], value / len(cell))
    whole = run("kernel_shap", trace, window=3)  # one player takes it all
    close(whole.values, np.full((3, 3), whole.figures["score_difference"] / 9))
    assert whole.values.sum() == pytest.approx(heat.values.sum())


@pytest.mark.parametrize("against", [None, 3])
def test_captum_agrees_where_it_draws_nothing(against: int | None) -> None:
    """Its ablation, and its Shapley values (in float32) from all orders of four patches."""
    trace = traced(size=(8, 8))
    cells = torch.arange(4).reshape(2, 2).repeat_interleave(4, 0).repeat_interleave(4, 1)

    def probability(pixels: Tensor) -> Tensor:
        answer = trace.model.logits(pixels).softmax(-1)
        return answer[:, 1] if against is None else answer[:, 1] - answer[:, against]

    for name, peer in (("occlusion", FeatureAblation), ("kernel_shap", ShapleyValues)):
        with torch.no_grad():
            values = peer(probability).attribute(
                trace.pixels,
                baselines=baseline(trace, "blur")[None],
                feature_mask=cells[None, None],
                perturbations_per_eval=1,
            )
        heat = run(name, trace, fill="blur", against=against)
        close(heat.values, values[0, 0, ::4, ::4], 1e-8)


@pytest.mark.parametrize("variant", CLASSIFIERS)
@pytest.mark.parametrize("window", [0, 1, 2])
def test_shap_is_complete(variant: str, window: int) -> None:
    trace = traced(variant)
    patches = trace.grid[0] * trace.grid[1]
    heat = run("kernel_shap", trace, samples=70, window=window, against=3, fill="blur")
    everything = hide(trace, set(range(patches)), "blur")
    difference = slow_score(trace, trace.pixels[0], against=3)
    difference -= slow_score(trace, everything, against=3)
    assert heat.values.sum() == pytest.approx(difference, abs=1e-12)
    assert heat.figures["score_difference"] == pytest.approx(abs(difference))


@pytest.mark.parametrize("fill", BASELINES)
def test_shap_lime_and_occlusion_of_a_linear_model_are_its_terms(fill: str) -> None:
    trace = closed()
    w, x = trace.model.module.w.detach()[1], trace.pixels[0]
    wanted = (w * (x - baseline(trace, fill))).sum(0).reshape(2, 4, 3, 4).sum((1, 3))
    settings = {"fill": fill, "score": "logit"}
    for name, more in (
        ("occlusion", {}),
        ("kernel_shap", {}),  # all sets
        ("kernel_shap", {"samples": 60}),  # drawn sets
        ("lime", {"ridge": 0.0, "samples": 30}),
    ):
        close(run(name, trace, **settings, **more).values, wanted)
    drawn = run("kernel_shap", trace, samples=60, **settings)
    assert drawn.figures["standard_error"] < 1e-10
    assert run("lime", trace, ridge=0.0, **settings).figures["fit"] == pytest.approx(1)


def test_shap_of_drawn_sets_tends_to_the_exact_values_with_the_stated_error() -> None:
    """A game of 7 players with pairs that work together, many seeds."""
    generator = torch.Generator().manual_seed(1)
    alone = torch.randn(7, generator=generator).double()
    pairs = torch.randn(7, 7, generator=generator).double()

    def game(sets: Tensor) -> Tensor:
        z = sets.double()
        return torch.sigmoid(z @ alone + ((z @ pairs) * z).sum(1) - 1)

    ends = torch.stack([torch.ones(7), torch.zeros(7)]).bool()
    total = game(ends)[0] - game(ends)[1]
    exact = torch.zeros(7, dtype=torch.float64)
    for player in range(7):
        others = [p for p in range(7) if p != player]
        for size in range(7):
            for chosen in combinations(others, size):
                z = torch.zeros(1, 7, dtype=torch.bool)
                z[0, list(chosen)] = True
                with_player = z.clone()
                with_player[0, player] = True
                share = factorial(size) * factorial(6 - size) / factorial(7)
                exact[player] += share * (game(with_player) - game(z))[0]

    found, stated = [], []
    for seed in range(200):
        sets, weights = _drawn_pairs(7, 60, seed)
        values, errors = shapley(sets, weights, (game(sets) - game(~sets)) / 2, total)
        found.append(values)
        stated.append(errors)
    values, errors = torch.stack(found), torch.stack(stated)
    spread = values.std(0)
    close(values.mean(0), exact, float(5 * spread.max() / 200**0.5))
    assert float(errors.square().mean().sqrt()) == pytest.approx(
        float(spread.square().mean().sqrt()), rel=0.15
    )


def test_sets_are_drawn_with_the_shapley_kernel() -> None:
    sets, weights = _drawn_pairs(6, 40_000, 0)
    sizes = sets.sum(1).bincount(minlength=6).double()[1:] / 40_000
    kernel = torch.tensor([1 / (k * (6 - k)) for k in range(1, 6)], dtype=torch.float64)
    close(sizes, kernel / kernel.sum(), 0.01)
    close(sets.double().mean(0), np.full(6, 0.5), 0.01)
    assert (weights == 1).all()


def test_a_window_too_small_for_the_samples_is_refused() -> None:
    for name in ("kernel_shap", "lime"):
        with pytest.raises(ModelError, match="63 samples are too few for the 16 parts"):
            run(name, traced(), samples=63, window=1)
        heat = run(name, traced(), samples=63)
        assert len(np.unique(heat.values)) == 4  # squares of 2 × 2


# -- LIME ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "score", "width", "ridge", "window"),
    [
        ("plain", "probability", 0.25, 1.0, 0),
        ("rectangle", "logit", 0.5, 0.3, 1),
        ("average", "probability", 0.1, 0.0, 1),
        ("plain", "logit", 0.25, 1.0, 2),
    ],
)
def test_lime_solves_its_normal_equations(
    variant: str, score: str, width: float, ridge: float, window: int
) -> None:
    trace = traced(variant)
    rows, columns = trace.grid
    side = window or 1
    parts: dict[tuple[int, int], list[int]] = {}
    for i in range(rows):
        for j in range(columns):
            parts.setdefault((i // side, j // side), []).append(i * columns + j)
    players = list(parts.values())
    generator = torch.Generator().manual_seed(9)
    shown = (torch.rand(80, len(players), generator=generator) < 0.5).numpy()
    shown[0] = True
    normal = np.zeros((len(players) + 1,) * 2)
    right = np.zeros(len(players) + 1)
    samples = []
    for z in shown:
        hidden = {
            patch for part, there in zip(players, z, strict=True) if not there for patch in part
        }
        y = slow_score(trace, hide(trace, hidden, "grey"), score)
        distance = 1 - z.sum() / (np.sqrt(z.sum()) * np.sqrt(len(z))) if z.any() else 1
        weight = np.exp(-(distance**2) / (2 * width**2))
        row = np.append(z.astype(float), 1)
        normal += weight * np.outer(row, row)
        right += weight * y * row
        samples.append((row, y, weight))
    normal[:-1, :-1] += ridge * np.eye(len(players))  # the intercept is not penalised
    solution = np.linalg.solve(normal, right)
    heat = run(
        "lime",
        trace,
        samples=80,
        score=score,
        width=width,
        ridge=ridge,
        window=window,
        fill="grey",
        seed=9,
    )
    for part, coefficient in zip(players, solution, strict=False):
        close(heat.values.ravel()[part], coefficient / len(part), 1e-9)
    mean = sum(w * y for _, y, w in samples) / sum(w for *_, w in samples)
    missed = sum(w * (y - row @ solution) ** 2 for row, y, w in samples)
    spread = sum(w * (y - mean) ** 2 for _, y, w in samples)
    assert heat.figures["fit"] == pytest.approx(1 - missed / spread)
    assert ("lime_poor_fit" in keys(heat)) == (heat.figures["fit"] < 0.5)


def test_a_poor_imitation_is_said() -> None:
    shown = torch.rand(200, 4, generator=torch.Generator().manual_seed(0)) < 0.5
    parity = (shown.sum(1) % 2).double()  # no sum over patches imitates this
    _, fit = linear_fit(shown, parity, torch.ones(200, dtype=torch.float64), 1.0)
    assert fit < 0.1
    values, fit = linear_fit(shown, torch.full((200,), 2.0).double(), torch.ones(200).double(), 1.0)
    close(values, np.zeros(4))
    assert fit == 1
    trace = closed(squared=True)
    poor = run("lime", trace, ridge=1000.0, score="logit")
    assert keys(poor) == ["lime_poor_fit"]


# -- ViT-CX --------------------------------------------------------------------------------------


def slow_linkage(distances: np.ndarray, threshold: float, most: int) -> list[set[int]]:
    clusters = [{i} for i in range(len(distances))]
    while len(clusters) > 1:
        pairs = [
            (max(distances[i, j] for i in a for j in b), m, n)
            for m, a in enumerate(clusters)
            for n, b in enumerate(clusters)
            if m < n
        ]
        far, m, n = min(pairs)
        if far >= threshold and len(clusters) <= most:
            break
        clusters[m] |= clusters.pop(n)
    return clusters


@pytest.mark.parametrize(
    ("threshold", "most"), [(0.3, 99), (0.6, 99), (0.0, 5), (2.0, 99), (0.2, 3)]
)
@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_those_of_the_definition(threshold: float, most: int, seed: int) -> None:
    points = np.random.default_rng(seed).random((24, 3))
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    before = distances.copy()
    labels, found = complete_linkage(distances, threshold, most)
    wanted = slow_linkage(distances, threshold, most)
    assert {frozenset(np.flatnonzero(labels == i)) for i in range(labels.max() + 1)} == {
        frozenset(cluster) for cluster in wanted
    }
    assert found == len(slow_linkage(distances, threshold, 99))
    assert np.array_equal(distances, before)


def slow_vit_cx(
    trace: Trace, distance: float, most: int, noise: float, score: str, seed: int
) -> np.ndarray:
    """Whole masks for every channel, clusters by the definition, one mask at a time."""
    module, photo = trace.model.module, trace.pixels[0]
    with torch.no_grad():
        stream = slow_vit.slow_forward(module, photo).stream[-2]
        read = slow_vit.norm(stream, module.blocks[-1].norm1)[trace.prefix :]

    def scaled(mask: Tensor) -> Tensor:
        return (mask - mask.min()) / (mask.max() - mask.min())

    def spread(grid: Tensor) -> Tensor:
        size = tuple(photo.shape[1:])
        return F.interpolate(grid[None, None], size, mode="bilinear", align_corners=False)[0, 0]

    masks = [scaled(spread(channel.reshape(trace.grid))) for channel in read.T]
    flat = np.stack([mask.flatten().numpy() for mask in masks])
    lengths = np.linalg.norm(flat, axis=1)
    clusters = slow_linkage(1 - flat @ flat.T / lengths / lengths[:, None], distance, most)
    joined = [scaled(sum(masks[i] for i in sorted(c))) for c in sorted(clusters, key=min)]
    generator = torch.Generator().manual_seed(seed)
    draws = [
        noise * torch.randn((len(joined[i : i + 4]), *photo.shape), generator=generator)
        for i in range(0, len(joined), 4)
    ]
    whole = slow_score(trace, photo, score)
    total, coverage = torch.zeros(photo.shape[1:]), torch.zeros(photo.shape[1:])
    for mask, drawn in zip(joined, torch.cat(draws).double(), strict=True):
        hidden = slow_score(trace, photo * mask + drawn * (1 - mask), score)
        noisy = slow_score(trace, photo + drawn * (1 - mask), score)
        total = total + (hidden - noisy + whole) * mask
        coverage = coverage + mask
    return (total / coverage).numpy()


@pytest.mark.parametrize("variant", CLASSIFIERS)
def test_vit_cx_equals_its_definition(variant: str) -> None:
    trace = traced(variant)
    for settings in (
        {"distance": 0.1, "masks": 64, "noise": 0.1, "score": "probability", "seed": 0},
        {"distance": 0.05, "masks": 5, "noise": 0.5, "score": "logit", "seed": 3},
    ):
        heat = run("vit_cx", trace, level="zero", **settings)
        wanted = slow_vit_cx(
            trace,
            settings["distance"],
            settings["masks"],
            settings["noise"],
            settings["score"],
            settings["seed"],
        )
        close(heat.values, wanted)
        assert heat.figures["masks"] <= settings["masks"]
        assert ("vit_cx_joined" in keys(heat)) == (settings["masks"] == 5)
        whole = slow_score(trace, trace.pixels[0], settings["score"])
        assert heat.figures["photo_score"] == pytest.approx(whole)
        close(run("vit_cx", trace, **settings).values + whole, wanted)


def test_vit_cx_does_without_features_that_do_not_vary() -> None:
    trace = traced()
    module = trace.model.module
    with torch.no_grad():
        module.blocks[-1].norm1.weight[:7] = 0  # the same on every patch
    some = wrap_model(module).trace(PHOTO)
    assert np.isfinite(run("vit_cx", some).values).all()
    with torch.no_grad():
        module.blocks[-1].norm1.weight.zero_()
    none = run("vit_cx", wrap_model(module).trace(PHOTO))
    assert not none.values.any()
    assert none.figures["masks"] == 0


def test_vit_cx_is_refused_where_no_features_are_read() -> None:
    vit = wrap_model(tiny_encoder(norm_first=False), size=(16, 16))
    support = vit.supports("vit_cx")
    assert not support
    with pytest.raises(ModelError) as caught:
        run("vit_cx", vit.trace(PHOTO))
    assert str(caught.value) == support.reason
    assert np.isfinite(
        run("vit_cx", wrap_model(tiny_encoder(), size=(16, 16)).trace(PHOTO)).values
    ).all()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("rise", {"masks": 1}, r"2\.\.10000"),
        ("rise", {"share": 1.0}, r"0\.05\.\.0\.95"),
        ("rise", {"fill": "remove"}, "one of black"),
        ("kernel_shap", {"samples": 7}, r"8\.\.20000"),
        ("kernel_shap", {"window": -1}, r"0\.\.64"),
        ("lime", {"width": 0.0}, r"0\.01\.\.10"),
        ("lime", {"ridge": -1.0}, r"0\.0\.\.1000"),
        ("vit_cx", {"masks": 1}, r"2\.\.4096"),
        ("vit_cx", {"level": "average"}, "one of photo, zero"),
        ("occlusion", {"fill": "pink"}, "blur, remove"),
        ("occlusion", {"compare": "maybe"}, "one of no, yes"),
    ],
)
def test_bad_settings_name_the_range(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(name, traced(), **settings)


@pytest.mark.parametrize("name", ["rise", "vit_cx", "kernel_shap", "lime", "occlusion"])
def test_headless_models_are_refused(name: str) -> None:
    vit = wrap_model(tiny_vit(num_classes=0))
    assert not vit.supports(name)
    with pytest.raises(ModelError, match="no classification head"):
        explain(name, vit.trace(PHOTO))
