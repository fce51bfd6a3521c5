"""What holds for every method: a finite map or a reason, progress, targets, settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explainers import Cancelled, ModelError, explain, load_photo, methods, wrap_model
from tests.method_runs import PHOTO, SETTINGS, close, run, traced
from tests.tiny import RECTANGLE, VARIANTS, tiny_photo_array, tiny_vit

OTHER = load_photo(tiny_photo_array(seed=9))


@pytest.mark.parametrize("name", methods())
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_finite_map_of_the_right_shape_or_a_reason(name: str, variant: str) -> None:
    trace = wrap_model(tiny_vit(**VARIANTS[variant], dtype=torch.float32)).trace(PHOTO)
    support = trace.model.supports(name)
    if not support:
        assert variant == "headless"
        assert support.reason
        with pytest.raises(ModelError) as caught:
            run(name, trace)
        assert str(caught.value) == support.reason
        return
    heat = run(name, trace)
    shapes = {"grid": trace.grid, "pixels": trace.pixels.shape[2:], "rgb": (*trace.grid, 3)}
    assert heat.values.shape == shapes[heat.kind]
    assert heat.values.dtype == np.float32
    assert np.isfinite(heat.values).all()
    assert heat.signed or heat.values.min() >= 0
    assert not heat.flat


@pytest.mark.parametrize("name", methods())
def test_the_map_moves_when_it_must(name: str) -> None:
    trace = traced()
    values = run(name, trace, 1).values
    specific = methods()[name].class_specific
    assert specific != np.allclose(values, run(name, trace, 2).values, atol=1e-9)
    if specific:
        contrast = run(name, trace, 1, against=2)
        assert contrast.against is not None
        assert not np.allclose(values, contrast.values, atol=1e-9)
    assert not np.allclose(values, run(name, traced(seed=4), 1).values, atol=1e-9)
    assert not np.allclose(values, run(name, trace.model.trace(OTHER), 1).values, atol=1e-9)


@pytest.mark.parametrize("name", methods())
def test_a_batch_equals_single_runs(name: str) -> None:
    vit = wrap_model(tiny_vit(size=RECTANGLE, dtype=torch.float32))
    photos = [PHOTO, OTHER, PHOTO, OTHER]
    maps = explain(name, vit.trace(photos), 2, **SETTINGS.get(name, {}))  # type: ignore[arg-type]
    assert isinstance(maps, list)
    for heat, photo in zip(maps, photos, strict=True):
        close(heat.values, run(name, vit.trace(photo), 2).values, 1e-5)
        assert heat.photo is photo


@pytest.mark.parametrize("name", methods())
def test_progress_and_cancel(name: str) -> None:
    trace = traced()
    seen: list[tuple[int, int]] = []
    run(name, trace, 1, progress=lambda done, total: seen.append((done, total)))
    assert all(0 <= done <= total for done, total in seen)
    assert seen == sorted(seen)
    if methods()[name].class_specific:
        assert seen

        def stop(done: int, total: int) -> None:
            raise Cancelled

        with pytest.raises(Cancelled):
            run(name, traced(), 1, progress=stop)


@pytest.mark.parametrize("name", methods())
def test_declarations_are_complete(name: str) -> None:
    method = methods()[name]
    for text in (method.title, method.meaning, method.paper, method.bibtex, method.limits):
        assert text.strip()
    assert method.meaning.endswith(".")
    assert method.cost(method.defaults, 196) >= 0
    for parameter in method.parameters:
        assert parameter.meaning.endswith(".")
    trace = traced()
    heat = run(name, trace)
    provenance = heat.provenance
    assert provenance["photo_sha256"] == PHOTO.sha256
    assert provenance["loaded_weights_sha256"] == trace.model.weights_hash
    assert provenance["parameters"] == dict(heat.parameters)
    assert "path" not in str(provenance)


def test_targets() -> None:
    trace = traced()
    top = trace.top(1)[0]
    heat = run("saliency", trace)
    assert heat.target is not None
    assert (heat.target.index, heat.target.label) == top[:2]
    assert heat.target.probability == pytest.approx(top[2])
    assert run("saliency", trace, "TABBY").target.index == 0  # type: ignore[union-attr]
    assert run("saliency", trace, "king of beasts").target.index == 3  # type: ignore[union-attr]
    assert run("rollout", trace).target is None
    for bad, message in (
        ("cat", "tabby cat.*Persian cat"),
        ("unicorn", "unicorn"),
        (5, "0 to 4"),
        (-1, "0 to 4"),
    ):
        with pytest.raises(ValueError, match=message):
            run("saliency", trace, bad)
    with pytest.raises(ValueError, match="itself"):
        run("saliency", trace, 1, against=1)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("nonsense", {}, "attention.*rollout"),
        ("rollout", {"blocks": 1}, "has no setting 'blocks'; it has: fusion"),
        ("rollout", {"fusion": "median"}, "one of mean, max, min"),
        ("rollout", {"discard": 1.5}, r"0\.0\.\.0\.99"),
        ("rollout", {"discard": float("nan")}, r"0\.0\.\.0\.99"),
        ("rollout", {"row": 17}, r"0\.\.16"),
        ("attention", {"block": 3}, r"-3\.\.2"),
        ("attention", {"head": 2}, r"-2\.\.1 or one of mean, max"),
        ("attention", {"head": True}, r"-2\.\.1"),
        ("integrated_gradients", {"steps": 0}, r"1\.\.500"),
        ("integrated_gradients", {"steps": 2.5}, "whole number"),
        ("occlusion", {"fill": "pink"}, "black, white"),
    ],
)
def test_bad_settings_name_the_range(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explain(name, traced(), **settings)  # type: ignore[arg-type]


def test_an_untrained_grid_is_said() -> None:
    trace = wrap_model(tiny_vit(), trained_grids=[(6, 6)]).trace(PHOTO)
    notes = run("rollout", trace).notes
    assert [note.key for note in notes] == ["untrained_grid"]
    assert "4×4" in notes[0]
    assert "6×6" in notes[0]
    assert not run("rollout", wrap_model(tiny_vit(), trained_grids=[(4, 4)]).trace(PHOTO)).notes


@pytest.mark.parametrize(
    ("name", "settings", "plain"),
    [
        ("attention", {"block": np.int64(1), "head": torch.tensor(1)}, {"block": 1, "head": 1}),
        ("attention", {"row": np.uint8(2)}, {"row": 2}),
        ("rollout", {"discard": np.float32(0.5)}, {"discard": 0.5}),
        ("integrated_gradients", {"steps": np.int32(3)}, {"steps": 3}),
    ],
)
def test_numbers_of_any_kind_are_settings(
    name: str, settings: dict[str, object], plain: dict[str, object]
) -> None:
    heat, wanted = run(name, traced(), **settings), run(name, traced(), **plain)
    assert np.array_equal(heat.values, wanted.values)
    assert [type(value) for value in heat.parameters.values()] == [
        type(value) for value in wanted.parameters.values()
    ]


@pytest.mark.parametrize("head", [np.array([1, 2]), [1], 1.0, "x" * 5000, 10**5000], ids=range(5))
def test_what_is_no_setting_is_named_in_one_short_sentence(head: object) -> None:
    with pytest.raises(ValueError, match="must be a whole number in") as error:
        explain("attention", traced(), head=head)
    assert len(str(error.value)) < 250


def test_only_traces_are_explained() -> None:
    for wrong in (PHOTO, wrap_model(tiny_vit()), None):
        with pytest.raises(TypeError, match=r"make one with model\.trace\(photo\)"):
            explain("rollout", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "words"), [(torch.float64, "check the weights"), (torch.float16, "try float32")]
)
def test_numbers_that_are_not_finite_are_refused(dtype: torch.dtype, words: str) -> None:
    module = tiny_vit(dtype=dtype)
    with torch.no_grad():
        module.get_parameter("head.weight").fill_(float("nan"))
    with pytest.raises(ModelError, match=words):
        explain("saliency", wrap_model(module).trace(PHOTO))
