"""Deletion, insertion and the sanity checks: closed forms, slow twins, planted frauds."""

from __future__ import annotations

import gc
import json
import runpy
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchmarks.measures_table import Results, interval, table
from explainers import (
    Cancelled,
    HeatMap,
    ModelError,
    VisionModel,
    explain,
    load_photo,
    methods,
    registry,
    wrap_model,
)
from explainers.command.cards import markdown
from explainers.heatmap import Finding
from explainers.measures import Measure, measure, sanity
from explainers.measures.cascade import _blocks, cascade
from explainers.measures.curves import step_counts
from explainers.measures.orders import best_first, centre_first, patch_values, random_order
from explainers.methods.baselines import baseline
from explainers.models.adapters import YES, Adapter
from explainers.models.preprocessing import Preprocessing
from explainers.registry import Method
from explainers.trace import Trace
from tests.test_sharing import state
from tests.tiny import LABELS, VARIANTS, tiny_encoder, tiny_photo_array, tiny_vit

ROOT = Path(__file__).resolve().parent.parent
PHOTO = load_photo(tiny_photo_array())
CLASSIFIERS = [name for name in VARIANTS if name != "headless"]


def traced(variant: str = "plain", **more: object) -> Trace:
    return wrap_model(tiny_vit(**{**VARIANTS[variant], **more}), labels=LABELS).trace(PHOTO)


def heat_of(trace: Trace, values: np.ndarray, kind: str = "grid", signed: bool = False) -> HeatMap:
    """A map of given values, as a method would have made it."""
    return HeatMap(
        values=values,
        kind=kind,  # type: ignore[arg-type]
        signed=signed,
        method="planted",
        title="Planted",
        meaning="",
        photo=trace.photo,
        geometry=trace.geometry,
        target=None,
        against=None,
        parameters={},
        prefix_share=None,
        figures={},
        notes=(),
        provenance={},
    )


# -- curves ---------------------------------------------------------------------------------


class Share(nn.Module):
    """p(class 0) = F / 10, F = Σ_i w_i·x_i over four patches, w_i·x_i = 1, 2, 3, 4 for a photo.

    The weights of a patch sum to zero in every channel, so an evenly filled patch gives 0.
    """

    def __init__(self, pixels: Tensor) -> None:
        super().__init__()
        pattern = torch.ones(4, 4, dtype=pixels.dtype)
        pattern[:, ::2] = -1
        w = pattern.repeat(3, 2, 2)
        for wanted, (row, column) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1)), 1):
            cell = (slice(None), slice(4 * row, 4 * row + 4), slice(4 * column, 4 * column + 4))
            w[cell] *= wanted / (w[cell] * pixels[cell]).sum()
        self.w = nn.Parameter(w)

    def forward(self, pixels: Tensor) -> Tensor:
        share = ((pixels * self.w).flatten(1).sum(1) / 10).clamp(1e-15, 1 - 1e-15)
        return torch.stack([share.log(), (1 - share).log()], 1)


def linear() -> Trace:
    adapter = Adapter()
    adapter.patch, adapter.classes = (4, 4), 2
    preprocessing = Preprocessing((8, 8), (0.5,) * 3, (0.5,) * 3, crop_pct=1.0)
    start = nn.Linear(1, 1).double()  # only says that pixels are float64
    vit = VisionModel(start.eval(), "linear", preprocessing, adapter, classes=2)
    vit.attention_check = YES
    vit.module = Share(vit.prepare([PHOTO])[0][0]).eval()
    return vit.trace(PHOTO)


@pytest.mark.parametrize(
    ("kind", "values", "area", "curve"),
    [
        ("deletion", (1, 2, 3, 4), 3.75, (10, 6, 3, 1, 0)),
        ("deletion", (4, 3, 2, 1), 6.25, (10, 9, 7, 4, 0)),
        ("insertion", (1, 2, 3, 4), 6.25, (0, 4, 7, 9, 10)),
        ("insertion", (4, 3, 2, 1), 3.75, (0, 1, 3, 6, 10)),
    ],
)
def test_linear_closed_forms(
    kind: str, values: tuple[int, ...], area: float, curve: tuple[int, ...]
) -> None:
    trace = linear()
    heat = heat_of(trace, np.array(values, float).reshape(2, 2))
    found = measure(heat, trace, kind, target=0, full=True)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.curve.shares, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(10 * found.curve.values, curve, atol=1e-10)
    assert 10 * found.area == pytest.approx(area, abs=1e-10)
    areas = [10 * each.area for each in found.random]
    mean, deviation = found.random_area
    assert all(3.75 - 1e-9 <= each <= 6.25 + 1e-9 for each in areas)
    assert 10 * mean == pytest.approx(sum(areas) / 10)
    assert 100 * deviation**2 == pytest.approx(sum((a - sum(areas) / 10) ** 2 for a in areas) / 9)


def slow_curve(trace: Trace, target: int, order: np.ndarray, counts: list[int], kind: str) -> list:
    """One picture after the other, patch by patch."""
    fill, (_, columns), p = baseline(trace, "mean"), trace.grid, 4
    found = []
    for count in counts:
        hidden = order[:count] if kind == "deletion" else order[count:]
        pixels = trace.pixels[0].clone()
        for number in hidden.tolist():
            i, j = divmod(number, columns)
            box = (slice(None), slice(i * p, i * p + p), slice(j * p, j * p + p))
            pixels[box] = fill[box]
        with torch.no_grad():
            found.append(float(trace.model.module(pixels[None]).softmax(-1)[0, target]))
    return found


@pytest.mark.parametrize("variant", CLASSIFIERS)
@pytest.mark.parametrize("kind", ["deletion", "insertion"])
def test_measures_equal_their_slow_twin(variant: str, kind: str) -> None:
    trace = traced(variant)
    heat = explain("occlusion", trace, 3)
    assert isinstance(heat, HeatMap)
    found = measure(heat, trace, kind, full=True)  # type: ignore[arg-type]
    n = trace.grid[0] * trace.grid[1]
    counts = [round(n * k / 16) for k in range(17)]
    if kind == "insertion":
        counts = [n - count for count in counts[::-1]]
    counts = sorted(set(counts))
    order = np.argsort(-heat.values.ravel())
    assert found.target.index == 3
    np.testing.assert_allclose(found.curve.shares, np.array(counts) / n)
    np.testing.assert_allclose(
        found.curve.values, slow_curve(trace, 3, order, counts, kind), atol=1e-10
    )
    steps = np.diff(counts)
    v = found.curve.values
    area = sum(s / n * (v[i] + v[i + 1]) / 2 for i, s in enumerate(steps))
    assert found.area == pytest.approx(area, abs=1e-12)
    for number in (0, 7):  # an insertion of a random order deletes its reverse
        drawn = random_order(n, number)
        drawn = drawn if kind == "deletion" else drawn[::-1]
        slow = slow_curve(trace, 3, drawn, counts, kind)
        np.testing.assert_allclose(found.random[number].values, slow, atol=1e-10)
        np.testing.assert_allclose(found.random[number].shares, np.array(counts) / n)
        assert found.random_marks[number] == pytest.approx(slow[3], abs=1e-10)
    assert found.centre is not None
    middle = centre_first(trace.grid, (4, 4))
    np.testing.assert_allclose(
        found.centre.values, slow_curve(trace, 3, middle, counts, kind), atol=1e-10
    )


def test_centre_first_goes_outwards() -> None:
    order = centre_first((3, 5), (4, 2))
    y, x = np.divmod(order, 5)
    distance = np.hypot((y - 1) * 4, (x - 2) * 2)
    assert (np.diff(distance) >= 0).all()
    assert sorted(order) == list(range(15))
    assert order[0] == 7


def test_sixteen_steps_cover_all_patches() -> None:
    for patches in (1, 4, 15, 16, 49, 196, 577):
        deleted, inserted = (step_counts(patches, kind) for kind in ("deletion", "insertion"))  # type: ignore[arg-type]
        assert (deleted[0], deleted[-1]) == (inserted[0], inserted[-1]) == (0, patches)
        assert (np.diff(deleted) > 0).all()
        assert (np.diff(inserted) > 0).all()
        assert len(deleted) == len(inserted) == min(16, patches) + 1
        assert np.abs(np.diff(deleted) - patches / 16).max() <= 1


def test_orders_rank_signed_maps_by_value_and_sum_pixels() -> None:
    trace = traced("rectangle")
    pixels = np.random.default_rng(3).normal(size=(12, 20))
    summed = patch_values(heat_of(trace, pixels, "pixels", signed=True))
    wanted = [
        [pixels[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].sum() for j in range(5)] for i in (0, 1, 2)
    ]
    np.testing.assert_allclose(summed, wanted)
    assert (np.diff(summed.ravel()[best_first(summed)]) <= 0).all()
    assert summed.ravel()[best_first(summed)[-1]] == summed.min() < 0


def test_equal_patches_follow_no_place() -> None:
    even = best_first(np.zeros((14, 14)))
    assert sorted(even) == list(range(196))
    assert abs(float(np.corrcoef(even, np.arange(196))[0, 1])) < 0.2
    assert (even == best_first(np.ones((14, 14)))).all()


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of pictures in every pass of any model."""
    counted: list[int] = []
    plain = VisionModel.logits

    def logits(self: VisionModel, pixels: Tensor, *more: object) -> Tensor:
        counted.append(len(pixels))
        return plain(self, pixels, *more)

    monkeypatch.setattr(VisionModel, "logits", logits)
    return counted


def test_what_maps_share_is_computed_once_and_only_when_asked(passes: list[int]) -> None:
    trace = traced()
    first, second = (heat_of(trace, np.random.default_rng(i).random((4, 4))) for i in (0, 1))
    said = []
    for heat, kind, full, cost in (
        (first, "deletion", False, 15 + 10 + 1),
        (second, "deletion", False, 15),
        (second, "deletion", True, 15 + 150 + 15),
        (first, "deletion", True, 15),
        (first, "insertion", False, 15 + 10),
        (first, "insertion", True, 15 + 15),
    ):
        passes.clear()
        ticks: list[tuple[int, int]] = []
        found = measure(
            heat,
            trace,
            kind,
            full=full,
            progress=lambda *tick, ticks=ticks: ticks.append(tick),  # type: ignore[misc]
        )
        assert sum(passes) == cost
        assert max(passes) <= 8
        assert {total for _, total in ticks} == {cost}
        assert [done for done, _ in ticks] == sorted(done for done, _ in ticks)
        assert ticks[-1] == (cost, cost)
        said.append((found.sentence, found.area))
    assert said[0] == said[3]


def test_a_measure_can_be_stopped_and_goes_on(passes: list[int]) -> None:
    trace = traced()
    heat = heat_of(trace, np.random.default_rng(0).random((4, 4)))
    before = state(trace.model.module)

    def stop(done: int, total: int) -> None:
        if done >= 60:
            raise Cancelled

    with pytest.raises(Cancelled):
        measure(heat, trace, full=True, progress=stop)
    assert state(trace.model.module) == before
    passes.clear()
    again = measure(heat, trace, full=True)
    assert sum(passes) < 191
    fresh = measure(heat, trace.model.trace(PHOTO), full=True)
    assert again.comparison == fresh.comparison
    assert again.random_area == fresh.random_area
    assert state(trace.model.module) == before


def test_references_go_with_their_trace() -> None:
    trace = traced()
    measure(heat_of(trace, np.eye(4)), trace)
    gone = weakref.ref(trace)
    del trace
    gc.collect()
    assert gone() is None


def test_threads_measure_alike() -> None:
    serial, shared = traced(dtype=torch.float32), traced(dtype=torch.float32)
    maps = [np.random.default_rng(i).random((4, 4)) for i in range(16)]

    def run(trace: Trace, values: np.ndarray) -> tuple[float, tuple[float, float]]:
        found = measure(heat_of(trace, values), trace, full=True)
        return found.area, found.random_area

    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(lambda values: run(shared, values), maps))
    assert parallel == [run(serial, values) for values in maps]


def test_sentences_say_what_happened() -> None:
    trace = linear()
    right = heat_of(trace, np.array([[1.0, 2], [3, 4]]))
    found = measure(right, trace, target=0, full=True)
    assert found.sentence == (
        f"Removing the top 75 % drops class 0 from 1.00 to 0.10; random order: "
        f"{found.random_marks.mean():.2f}."
    )
    assert found.comparison.startswith("Deletion 0.375 (lower is better); random orders 0.")
    found = measure(right, trace, "insertion", target=0, full=True)
    assert found.sentence.startswith("The top 75 % alone give class 0 0.90, the whole photo 1.00;")
    assert found.comparison.startswith("Insertion 0.625 (higher is better); random orders 0.")
    other = measure(right, trace, target=1)
    assert other.sentence.startswith("Removing the top 75 % does not lower class 1 but raises it")
    assert "from <0.01 to 0.90" in other.sentence
    with pytest.raises(ValueError, match="full=True"):
        _ = other.comparison


def test_one_step_is_told_where_there_are_few_patches() -> None:
    trace = traced(size=(4, 4))
    found = measure(heat_of(trace, np.ones((1, 1))), trace)
    assert isinstance(found, Measure)
    assert found.sentence.values["share"] == 100


def test_the_maps_own_class_is_watched_or_the_top_one() -> None:
    trace = traced()
    top = trace.top(1)[0][0]
    for target in range(5):
        heat = explain("saliency", trace, target)
        assert isinstance(heat, HeatMap)
        assert measure(heat, trace).target.index == target
    rollout = explain("rollout", trace)
    assert isinstance(rollout, HeatMap)
    assert measure(rollout, trace).target.index == top
    assert measure(rollout, trace, target="teapot").target.label == "teapot"


def test_refusals() -> None:
    trace = traced()
    with pytest.raises(ModelError, match="shows colours"):
        measure(heat_of(trace, np.zeros((4, 4, 3)), "rgb"), trace)
    headless = wrap_model(tiny_vit(num_classes=0)).trace(PHOTO)
    with pytest.raises(ModelError, match="no classification head"):
        measure(heat_of(headless, np.eye(4)), headless)


# -- sanity ---------------------------------------------------------------------------------


def edges(trace: Trace, objective: object, progress: object) -> Finding:
    """The photo's own edges: a fraud that no model is asked for."""
    grey = trace.pixels[0].mean(0)
    steps = torch.zeros_like(grey)
    steps[1:] += (grey[1:] - grey[:-1]).abs()
    steps[:, 1:] += (grey[:, 1:] - grey[:, :-1]).abs()
    return Finding(steps.numpy(), kind="pixels")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> str:
    method = Method(
        name="edges",
        title="Edges",
        meaning="",
        question="counted",
        class_specific=True,
        signed=False,
        needs=("class",),
        cost=lambda parameters, patches: 0,
        paper="",
        bibtex="",
        limits="",
        function=edges,
    )
    monkeypatch.setitem(registry._METHODS, "edges", method)
    return "edges"


def traces(model: VisionModel, count: int = 3) -> list[Trace]:
    return [model.trace(load_photo(tiny_photo_array(seed=seed))) for seed in range(count)]


def test_an_edge_detector_is_found_out(planted: str) -> None:
    found = sanity(planted, traces(wrap_model(tiny_vit())))
    assert found.other_class == 1
    assert [value for _, value in found.weights] == [1] * 3
    assert found.weights_verdict.key == "sanity_weights_same"
    assert "does not depend on the weights" in found.weights_verdict
    assert found.class_verdict is not None
    assert found.class_verdict.key == "sanity_class_same"


def test_rollout_does_not_depend_on_the_class_but_on_the_weights() -> None:
    found = sanity("rollout", traces(wrap_model(tiny_vit())))
    assert found.other_class == 1
    assert found.class_verdict is not None
    assert "does not depend on the class" in found.class_verdict
    assert found.weights_verdict.key == "sanity_weights_differ"
    assert found.photos == 3


@pytest.mark.parametrize("make", [tiny_vit, tiny_encoder])
def test_a_gradient_map_depends_on_both(make) -> None:  # type: ignore[no-untyped-def]
    found = sanity("input_x_gradient", traces(wrap_model(make(), size=(16, 16))))
    assert found.class_verdict is not None
    assert found.class_verdict.key == "sanity_class_differs"
    assert found.weights_verdict.key == "sanity_weights_differ"
    assert [blocks for blocks, _ in found.weights] == [1, 2, 3]


def test_hardly_is_said_in_between() -> None:
    from explainers.measures.sanity import Sanity

    found = Sanity("x", 1, 0.9, ((1, 0.99), (2, 0.85)))
    assert found.class_verdict is not None
    assert "hardly depends on the class" in found.class_verdict
    assert "hardly depends on the weights" in found.weights_verdict


def test_sanity_is_computed_once_and_leaves_the_model_alone(passes: list[int]) -> None:
    model = wrap_model(tiny_vit())
    seen, before = traces(model), state(model.module)
    random_state = torch.get_rng_state()
    first = sanity("saliency", seen, resolution="patch")
    assert state(model.module) == before
    assert torch.equal(torch.get_rng_state(), random_state)
    passes.clear()
    assert sanity("saliency", seen, resolution="patch") is first
    assert not passes
    assert sanity("saliency", seen[:1], resolution="patch").photos == 1
    assert passes
    again = wrap_model(tiny_vit())
    assert sanity("saliency", traces(again), resolution="patch") == first


def test_sanity_can_be_stopped() -> None:
    model = wrap_model(tiny_vit())
    before = state(model.module)
    ticks: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        ticks.append((done, total))
        if done > total / 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        sanity("occlusion", traces(model), stop)
    assert [done for done, _ in ticks] == sorted(done for done, _ in ticks)
    assert len({total for _, total in ticks}) == 1
    assert state(model.module) == before


def test_sanity_without_classes() -> None:
    found = sanity("rollout", wrap_model(tiny_vit(num_classes=0)).trace(PHOTO))
    assert found.other_class is None
    assert found.class_verdict is None
    assert len(found.weights) == 3


def test_a_slow_method_is_asked_after_quarters_of_the_blocks() -> None:
    found = sanity("occlusion", traces(wrap_model(tiny_vit(depth=6, size=(24, 24))), 1))
    assert [blocks for blocks, _ in found.weights] == [2, 3, 4, 6]


@pytest.mark.parametrize(
    "module",
    [tiny_vit(), tiny_vit(depth=1), tiny_encoder(), tiny_encoder(norm_first=False)],
    ids=["timm", "one block", "encoder", "post-LN"],
)
def test_the_cascade_redraws_whole_blocks_from_the_top(module: nn.Module) -> None:
    vit = wrap_model(module, size=(16, 16))
    layers = module.blocks if hasattr(module, "blocks") else module.encoder.layers
    depth = len(layers)
    if depth > 1:
        assert _blocks(vit) == list(layers)
    own = {name: p.detach().clone() for name, p in module.named_parameters()}
    place = {id(p): number for number, layer in enumerate(layers) for p in layer.parameters()}
    block_of = {name: place.get(id(p), -1) for name, p in module.named_parameters()}
    for done, private in cascade(vit, depth):
        assert private.module is not module
        for name, parameter in private.module.named_parameters():
            now = parameter.detach()
            changed = not torch.equal(now, own[name])
            assert changed == (block_of[name] >= depth - done), name
            if changed and now.numel() > 100:
                assert float(now.mean()) == pytest.approx(float(own[name].mean()), abs=0.1)
                assert float(now.std()) == pytest.approx(float(own[name].std()), rel=0.3)
    assert all(torch.equal(p, own[name]) for name, p in module.named_parameters())


# -- cards and table ------------------------------------------------------------------------


def test_the_page_on_methods_is_current() -> None:
    made = runpy.run_path(str(ROOT / "docs/methods.py"))["document"]()
    written = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    assert made == written, "run: python docs/methods.py"


def test_cards_hold_all_that_methods_declare() -> None:
    text = markdown()
    for name, method in methods().items():
        card = text.split(f"\n### {name}\n")[1].split("\n### ")[0]
        for part in (method.title, method.meaning, method.limits, method.paper, method.bibtex):
            assert part in card
        for parameter in method.parameters:
            assert f"| `{parameter.name}` |" in card
            assert parameter.meaning in card
        assert f"(#{name})" in text


def test_bootstrap_interval() -> None:
    values = np.random.default_rng(0).normal(0.3, 0.1, 100)
    mean, low, high = interval(values)
    assert mean == pytest.approx(values.mean())
    half = 1.96 * values.std() / 10
    assert low == pytest.approx(mean - half, abs=0.004)
    assert high == pytest.approx(mean + half, abs=0.004)
    assert interval(values) == (mean, low, high)


def test_the_table_is_made_from_a_file_that_can_be_gone_on_from(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    draw = np.random.default_rng(0)
    for photo in "abcdef":
        noise = float(draw.normal(0, 0.01))
        for name, gain in (("random", 0.0), ("centre", 0.02), ("rollout", 0.1), ("lime", 0.2)):
            if name != "lime" or photo < "f":
                areas = {"deletion": 0.5 + noise - gain, "insertion": 0.4 + noise + gain}
                results.add(name, photo, areas)
    again = Results(tmp_path / "results.jsonl")
    assert json.dumps(again.areas) == json.dumps(results.areas)
    again.add("rise", "a", {"deletion": 0.0, "insertion": 1.0})  # one photo says nothing
    again.add_sanity("rollout", {"photos": 3, "other_class": 1.0, "weights": 0.12})
    again = Results(tmp_path / "results.jsonl")
    text = table(again, {"lime": {"samples": 99}, "rise": {"masks": 5}})
    lines = [line for line in text.splitlines() if line.startswith("| [") or line.startswith("| *")]
    assert [line.split("|")[1].strip() for line in lines] == [
        "[`lime`](#lime)",
        "[`rollout`](#rollout)",
        "*centre first*",
        "*random order*",
    ]
    assert [line.split("|")[2].strip() for line in lines] == ["5", "6", "6", "6"]
    # The noise of a photo is the same for all, so gains have none.
    assert "+0.100 [+0.100, +0.100] / +0.100 [+0.100, +0.100]" in lines[1]
    assert lines[1].endswith("| 1.00 | 0.12 |")
    assert lines[0].endswith("| – | – |")
    assert lines[3].split("|")[5:7] == [" – ", " – "]
    assert (
        "Best at deletion: `lime`, by +0.200 [+0.200, +0.200] over random order, +0.180 [+0.180, "
        "+0.180] over centre first, +0.100 [+0.100, +0.100] over the next, `rollout`." in text
    )
    assert "`lime` (samples = 99)" in text
    few = next(line for line in text.splitlines() if "fewer than 5 photos" in line)
    assert "`rise`" in few
    assert "`rollout`" not in few
    assert "#rise" not in text
