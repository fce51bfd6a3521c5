"""Separate looks: windows cover the photo, each is looked at alone, and the map is their mean."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from explainers import HeatMap, ModelError, Photo, explain, wrap_model
from explainers.models.sizes import uncut
from explainers.render.npz import npz_bytes, read_npz
from explainers.render.overlay import overlay
from explainers.separate_looks import SeparateLooks
from explainers.window_places import MOST, starts
from tests.tiny import CLASSES, LABELS, PATCH, tiny_photo_array, tiny_vit

SHAPES = [(40, 60), (60, 40), (50, 50), (13, 90), (9, 9)]


def photo_of(height: int, width: int) -> Photo:
    return Photo(tiny_photo_array(height, width))


def looks_at(shape: tuple[int, int] = (40, 60), **options: Any) -> SeparateLooks:
    return SeparateLooks(wrap_model(tiny_vit(), labels=LABELS), photo_of(*shape), **options)


@pytest.mark.parametrize("cells", [1, 2, 4, 14])
@pytest.mark.parametrize("whole", [1, 4, 5, 14, 15, 37, 100])
@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5, 0.9])
def test_windows_cover_everything_and_overlap_as_said(
    whole: int, cells: int, overlap: float
) -> None:
    found = starts(whole, cells, overlap)
    assert found[0] == 0
    assert found[-1] == max(whole - cells, 0)
    shared = min(math.ceil(overlap * cells), cells - 1)
    for here, following in itertools.pairwise(found):
        assert here < following <= here + cells - shared
    if len(found) > 1:  # one window fewer would not do
        assert (len(found) - 1) * (cells - shared) + shared < whole


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("long_side", [None, 8, 40, 61])
def test_windows_lie_on_the_photo(shape: tuple[int, int], long_side: int | None) -> None:
    looks = looks_at(shape, long_side=long_side)
    seen = np.zeros(looks.geometry.grid)
    for index, (row, column) in enumerate(looks.places):
        seen[row : row + 4, column : column + 4] += 1
        left, top, right, bottom = looks.box(index)
        assert -1e-9 <= left < right <= shape[1] + 1e-9
        assert -1e-9 <= top < bottom <= shape[0] + 1e-9
    assert seen.min() >= 1
    assert looks.geometry.seen_share == pytest.approx(1)
    assert len(looks) == looks.shape[0] * looks.shape[1]
    if long_side is None:
        assert min(looks.shape) == 2
    if shape == (9, 9) and long_side == 8:  # never smaller than one window
        assert len(looks) == 1


def slow_mean(looks: SeparateLooks, name: str, **asked: Any) -> np.ndarray:
    """Cell by cell: the mean over the windows that show it, each cut out and explained alone."""
    model, (rows, columns) = uncut(looks.model), looks.geometry.grid
    from dataclasses import replace

    size = looks.geometry.input_size
    pixels = replace(model.preprocessing, size=size).window(looks.photo)
    maps = []
    for row, column in looks.places:
        top, left = PATCH * row, PATCH * column
        heat = explain(name, model.trace(Photo(pixels[top : top + 16, left : left + 16])), **asked)
        assert isinstance(heat, HeatMap)
        maps.append(heat.values)
    cell = 1 if maps[0].shape == (4, 4) else PATCH
    out = np.zeros((rows * cell, columns * cell))
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            found = [
                values[y - cell * row, x - cell * column]
                for (row, column), values in zip(looks.places, maps, strict=True)
                if 0 <= y - cell * row < 4 * cell and 0 <= x - cell * column < 4 * cell
            ]
            out[y, x] = sum(found) / len(found)
    return out


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("rollout", {}),
        ("relevance", {}),
        ("relevance", {"target": 2}),
        ("relevance", {"target": 2, "against": 1}),
        ("saliency", {}),
        ("occlusion", {"target": 0}),
    ],
)
def test_the_map_is_the_mean_of_the_windows_maps(name: str, asked: dict[str, Any]) -> None:
    looks = looks_at()
    heat = looks.explain(name, **asked)
    np.testing.assert_allclose(heat.values, slow_mean(looks, name, **asked), rtol=1e-6, atol=1e-12)
    assert heat.title.endswith(f": {len(looks)} separate looks")
    assert heat.photo is looks.photo
    assert len(heat.windows) == len(looks)
    assert np.isfinite(heat.values).all()


def test_each_window_has_its_own_answer() -> None:
    looks = looks_at()
    heat = looks.explain("relevance")
    for index, window in enumerate(heat.windows):
        best, label, probability = looks.trace(index).top(1)[0]
        assert window.answer is not None
        assert (window.answer.index, window.answer.label) == (best, label)
        assert window.answer.probability == pytest.approx(probability)
        assert window.box == looks.box(index)
    assert heat.target is None  # no single class stands for all
    assert heat.notes[0].key == "windows_own"
    named = looks.explain("relevance", target="teapot")
    assert named.target is not None
    mean = np.mean([float(looks.trace(i).probabilities[0, 4]) for i in range(len(looks))])
    assert (named.target.label, named.target.probability) == ("teapot", pytest.approx(mean))
    assert named.notes[0].key == "windows_each"


def test_one_window_is_the_plain_map() -> None:
    looks = looks_at((16, 16), long_side=16)
    assert len(looks) == 1
    plain = explain("rollout", looks.trace(0))
    assert isinstance(plain, HeatMap)
    np.testing.assert_array_equal(looks.explain("rollout").values, plain.values)


def test_provenance_and_file_tell_of_the_windows(tmp_path: Any) -> None:
    looks = looks_at(long_side=50, overlap=0.5)
    heat = looks.explain("relevance")
    told = heat.provenance["windows"]
    assert told["long_side"] == 50
    assert told["overlap"] == 0.5
    assert told["first_cells"] == [list(place) for place in looks.places]
    assert len(told["targets"]) == len(looks)
    assert heat.provenance["photo_sha256"] == looks.photo.sha256
    path = tmp_path / "map.npz"
    path.write_bytes(npz_bytes(heat))
    assert read_npz(path)["provenance"]["windows"]["long_side"] == 50


def test_the_corners_of_the_overlay_carry_the_answers() -> None:
    looks = looks_at((400, 600))
    heat = looks.explain("rollout")
    from dataclasses import replace

    marked = np.asarray(overlay(heat)).astype(int)
    plain = np.asarray(overlay(replace(heat, windows=()))).astype(int)
    changed = np.abs(marked - plain).sum(axis=2) > 0
    for window in heat.windows:
        left, top, right, _ = (round(edge) for edge in window.box)
        corner = changed[top + 8 : top + 22, left + 8 : left + (right - left) // 3]
        assert corner.mean() > 0.5
        assert changed[top + 1, left + 5 : right - 5].all()  # the outline
    # labels need room; where there is none, the outline remains
    small = np.asarray(overlay(heat, width=60)).astype(int)
    assert small.shape == (40, 60, 3)


def test_a_model_without_a_head_has_windows_without_answers() -> None:
    vit = wrap_model(tiny_vit(num_classes=0))
    heat = SeparateLooks(vit, photo_of(40, 60)).explain("rollout")
    assert {window.answer for window in heat.windows} == {None}
    heat.overlay()


def test_progress_counts_all_windows_and_can_stop_them() -> None:
    from explainers import Cancelled

    looks, told = looks_at(), []
    looks.explain("occlusion", progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1] == 1000 * len(looks)

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        looks.explain("occlusion", progress=stop)


def test_the_model_is_left_as_it_was() -> None:
    module = tiny_vit()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    vit = wrap_model(module)
    SeparateLooks(vit, photo_of(40, 60)).explain("relevance")
    assert vit.preprocessing.crop_mode == wrap_model(module).preprocessing.crop_mode
    assert all(torch.equal(before[name], t) for name, t in module.state_dict().items())


# Refusals


@pytest.mark.parametrize("name", ["patch_similarity", "feature_pca"])
def test_maps_that_have_no_mean_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match="look at the whole photo"):
        looks_at().explain(name)


def test_a_chosen_token_is_refused() -> None:
    assert not looks_at().supports("attention", {"row": 3})
    assert looks_at().supports("attention")


def test_a_contrast_needs_a_class() -> None:
    with pytest.raises(ValueError, match="needs the class"):
        looks_at().explain("relevance", against=CLASSES - 1)


def test_too_many_windows_are_refused() -> None:
    with pytest.raises(ModelError, match=f"at most {MOST}"):
        looks_at(long_side=400)


@pytest.mark.parametrize("overlap", [-0.1, 1.0, 2])
def test_overlaps_out_of_range_are_refused(overlap: float) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 0\.9"):
        looks_at(overlap=overlap)
