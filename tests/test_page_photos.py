"""Photos and classes given to the page, and what is downloaded from it."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app import handlers
from app.api_explain import explain_photo
from app.explaining import explaining
from app.page import Page
from app.scene import Scene
from app.studio import Studio
from explainers import PhotoError, load_photo, wrap_model
from explainers.render.npz import read_npz
from tests.small_page import QUICK, ask, maps, page, photo_file, studio
from tests.tiny import LABELS, tiny_photo_array, tiny_vit


def test_a_new_photo_lets_go_of_the_class(studio: Studio, photo_file: Path) -> None:
    desk, old = studio.desks.of("a"), Scene(photo="old", model="one", target=3, against=2)
    scene = handlers.take_photo(studio, desk, old, photo_file)
    assert scene.photo is not None
    assert Path(scene.photo).is_relative_to(desk.folder)
    assert Path(scene.photo).read_bytes() == photo_file.read_bytes()  # the very file, unconverted
    assert (scene.model, scene.target, scene.against) == ("one", None, None)


@pytest.mark.parametrize("first_is_photo", [True, False])
def test_the_photo_chosen_last_wins_however_long_the_first_takes(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch, first_is_photo: bool
) -> None:
    big, entered, read = photo_file.with_name("big.png"), threading.Event(), threading.Event()
    big.write_bytes(photo_file.read_bytes() if first_is_photo else b"no photo")

    def reading(path: Path) -> Any:
        if path.name == "big.png":
            entered.set()
            read.wait(30)
        return load_photo(path)

    monkeypatch.setattr(handlers, "load_photo", reading)
    desk, taken = studio.desks.of("a"), []
    first = threading.Thread(
        target=lambda: taken.append(handlers.choose_photo(studio, desk, Scene(), big))
    )
    first.start()
    assert entered.wait(30)
    second = handlers.choose_photo(studio, desk, Scene(), photo_file)
    read.set()
    first.join()
    assert taken == [None]  # it says nothing, not even that it is no photo
    assert second is not None
    assert Path(second.photo or "").name == photo_file.name
    if not first_is_photo:
        with pytest.raises(PhotoError):
            handlers.choose_photo(studio, desk, Scene(), big)


def test_a_photo_taken_away_does_not_come_back_when_it_is_read(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, scene = studio.desks.of("a"), Scene(photo="x", target=3)

    def reading(path: Path) -> Any:
        assert handlers.choose_no_photo(desk, scene) == Scene()
        return load_photo(path)

    monkeypatch.setattr(handlers, "load_photo", reading)
    assert handlers.choose_photo(studio, desk, scene, photo_file) is None


def test_choices_of_a_photo_are_never_dropped_and_wait_for_no_other(page: Page) -> None:
    targets = {"upload", "clear", "pick"}
    found = [
        fn
        for fn in page.demo.fns.values()
        if fn.targets[0][1] in targets
        and fn.targets[0][0] in (page.widgets.chooser.photo._id, page.widgets.chooser.examples._id)
    ]
    assert len(found) == 3
    for fn in found:
        assert fn.trigger_mode == "multiple"
        assert fn.concurrency_limit == 32


def test_the_endpoint_takes_nulls_and_names_what_is_missing(
    studio: Studio, photo_file: Path
) -> None:
    desk = studio.desks.of("a")
    studio.models.add("embedded", wrap_model(tiny_vit(), labels=LABELS, name="embedded"))
    answer, pictures, file = explain_photo(studio, desk, str(photo_file), *[None] * 4)
    assert len(answer["top"]) == 5
    assert len(pictures) == 1
    assert file is not None
    assert file.endswith("maps.npz")
    studio.models.add("headless", wrap_model(tiny_vit(num_classes=0)))
    for model, names in (("embedded", " , "), ("headless", "saliency")):
        answer, pictures, file = explain_photo(studio, desk, str(photo_file), model, names, "", "")
        assert (pictures, file) == ([], None)
        assert [*answer["refused"]] == [name for name in (names,) if model == "headless"]
    with pytest.raises(PhotoError, match="No photo came"):
        explain_photo(studio, desk, None, "embedded", "rollout", "", "")


@pytest.mark.parametrize("name", ["photo.heic", "photo.tiff"])
def test_a_photo_browsers_cannot_show_is_kept_as_png(
    studio: Studio, tmp_path: Path, name: str
) -> None:
    if name.endswith("heic"):
        pytest.importorskip("pillow_heif").register_heif_opener()
    path = tmp_path / name
    Image.fromarray(tiny_photo_array()).save(path)
    scene = handlers.take_photo(studio, studio.desks.of("a"), Scene(), path)
    assert scene.photo is not None
    assert Path(scene.photo).suffix == ".png"
    assert load_photo(scene.photo).sha256 == load_photo(path).sha256


def test_a_file_that_is_no_photo_leaves_nothing_behind(studio: Studio, tmp_path: Path) -> None:
    path, desk = tmp_path / "note.png", studio.desks.of("a")
    path.write_text("this is no photo")
    with pytest.raises(PhotoError):
        handlers.take_photo(studio, desk, Scene(), path)
    assert not [file for file in desk.folder.rglob("*") if file.is_file()]


def test_classes_are_chosen_by_click_and_by_menu() -> None:
    scene = Scene(photo="a", model="one", target=None, against=4)
    assert handlers.choose_rank(scene, "one", [2, 0, 1], 1).target == 0
    for nothing in (None, 9, [1, 2], -1):
        assert handlers.choose_rank(scene, "one", [2, 0, 1], nothing) is scene
    assert handlers.choose_target(scene, "one", 4).against is None  # not a class against itself
    assert handlers.choose_target(scene, "two", 3) == Scene("a", "two", 3, None)
    assert handlers.choose_contrast(scene, "one", None).against is None


def test_downloads_hold_the_numbers_and_where_they_come_from(
    studio: Studio, photo_file: Path
) -> None:
    from explainers.render.npz import npz_bytes

    desk, request = studio.desks.of("a"), ask(photo_file)
    made = maps(list(explaining(studio, desk, request)))
    heats = handlers.maps_of(studio, desk, request)
    assert [heat is made[heat.method] for heat in heats] == [True] * 4
    file = handlers.write(desk, heats, "maps.npz", npz_bytes(heats))
    assert Path(file).name == "photo-maps.npz"
    assert Path(file).is_relative_to(desk.folder)
    contents = read_npz(file)
    assert np.array_equal(contents["rollout"], made["rollout"].values)
    assert contents["provenance"]["saliency"]["model"] == "one"
    studio.store.drop("a")
    assert len(handlers.maps_of(studio, desk, request)) == 4  # made again
    with pytest.raises(ValueError, match="no map to save"):
        handlers.write(desk, [], "maps.npz", b"")


def test_a_map_that_cannot_be_saved_says_why(studio: Studio, photo_file: Path) -> None:
    desk = studio.desks.of("a")
    settings = {"grad_cam": {"at": "output"}}
    asked = replace(ask(photo_file), methods=("grad_cam",), parameters=settings)
    assert handlers.maps_of(studio, desk, asked) == []
    assert "choose at=" in str(handlers.refusal(studio, desk, asked, "grad_cam"))
    assert "no map to save" in str(handlers.refusal(studio, desk, ask(photo_file), "rollout"))


def test_maps_to_be_saved_survive_another_request(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, request = studio.desks.of("a"), ask(photo_file)
    real, turns = handlers.explaining, []

    def overtaken(*given: Any) -> Iterator[Any]:
        for event in real(*given):
            yield event
            if not turns:
                turns.append(desk.next_turn())  # a slider was moved, say

    monkeypatch.setattr(handlers, "explaining", overtaken)
    assert len(handlers.maps_of(studio, desk, request)) == len(QUICK)
    assert turns
