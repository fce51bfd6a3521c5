"""The page without a browser: requests and their maps, photos given, what the widgets get."""

from __future__ import annotations

import html
import importlib.util
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app import cards, handlers
from app.api_explain import explain_photo
from app.explaining import Answered, Ended, Event, Mapped, Refused, Working, explaining
from app.keys import trace_bytes
from app.page import Page
from app.scene import Display, Request, Scene
from app.showing import Showing
from app.studio import Studio
from explainers import PhotoError, VisionModel, explain, load_photo, methods, wrap_model
from explainers.models.labels import short
from explainers.render.npz import read_npz
from tests.tiny import LABELS, tiny_photo_array, tiny_vit

QUICK = ("attention", "rollout", "saliency", "input_x_gradient")


def refuse(name: str, report: object, download: bool) -> VisionModel:
    raise AssertionError(f"{name} should not be loaded")


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    """A page's services with two small models, "one" and "two", ready."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "cache"))
    studio = Studio(refuse, "one")
    for seed, name in enumerate(("one", "two")):
        studio.models.add(name, wrap_model(tiny_vit(seed=seed), labels=LABELS, name=name))
    return studio


@pytest.fixture
def photo_file(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.fromarray(tiny_photo_array()).save(path)
    return path


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one, the batch's size, whenever any model runs."""
    counted: list[int] = []
    original = VisionModel.logits

    def logits(self: VisionModel, pixels: Any, *more: Any, **options: Any) -> Any:
        counted.append(len(pixels))
        return original(self, pixels, *more, **options)

    monkeypatch.setattr(VisionModel, "logits", logits)
    return counted


def ask(photo: Path, names: tuple[str, ...] = QUICK, **options: Any) -> Request:
    parameters = options.pop("parameters", {})
    scene = Scene(photo=str(photo), model=options.pop("model", "one"), **options)
    return Request(scene, names, parameters)


def maps(events: list[Event]) -> dict[str, Any]:
    return {event.name: event.heat for event in events if isinstance(event, Mapped)}


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.02) -> None:
    """Make every model run take longer."""
    original = VisionModel.logits

    def logits(self: VisionModel, *inputs: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return original(self, *inputs, **options)

    monkeypatch.setattr(VisionModel, "logits", logits)


# -- requests ------------------------------------------------------------------------------


def test_maps_are_the_librarys_own(studio: Studio, photo_file: Path) -> None:
    events = list(explaining(studio, studio.desks.of("a"), ask(photo_file, target=3, against=1)))
    vit = studio.models.ready("one")
    assert vit is not None
    trace = vit.trace(load_photo(photo_file))
    answered = next(event for event in events if isinstance(event, Answered))
    assert answered.trace.top(5) == trace.top(5)
    assert (answered.target, answered.against) == (3, 1)
    assert isinstance(events[-1], Ended)
    found = maps(events)
    assert tuple(found) == QUICK
    for name, heat in found.items():
        contrast = {"target": 3, "against": 1} if methods()[name].class_specific else {}
        expected = explain(name, trace, **contrast)
        assert np.array_equal(heat.values, expected.values)
        assert heat.provenance == expected.provenance


def test_a_card_says_what_is_scored_and_watched_with_a_contrast(
    studio: Studio, photo_file: Path
) -> None:
    vit = studio.models.ready("one")
    assert vit is not None
    trace = vit.trace(load_photo(photo_file))
    target, against = (short(vit.label(index)) for index in (3, 1))
    for name, score in (("saliency", "logit"), ("occlusion", "probability")):
        heat = explain(name, trace, target=3, against=1)
        text = html.unescape(cards.done("en", heat))
        assert f"The score here is the {score} of {target} minus that of {against}." in text
        assert f"removal below watches the probability of {target} alone." in text
        assert "The score here" not in cards.done("en", explain(name, trace, target=3))


def test_nothing_runs_again_that_is_known(
    studio: Studio, photo_file: Path, runs: list[int]
) -> None:
    desk = studio.desks.of("a")
    list(explaining(studio, desk, ask(photo_file, ("rollout", "saliency"))))
    assert runs == [1, 1]  # the trace, and the gradient pass
    more = list(explaining(studio, desk, ask(photo_file, QUICK)))
    assert len(maps(more)) == 4
    assert runs == [1, 1]  # a second gradient method shares the pass of the first
    again = list(explaining(studio, desk, ask(photo_file, QUICK)))
    assert not [event for event in again if isinstance(event, Working)]
    answered = next(event for event in again if isinstance(event, Answered))
    another = ((answered.target or 0) + 1) % 5
    other = list(explaining(studio, desk, ask(photo_file, QUICK, target=another)))
    assert runs == [1, 1, 1]
    assert maps(other)["rollout"] is maps(more)["rollout"]  # it is the same for every class
    assert not np.array_equal(maps(other)["saliency"].values, maps(more)["saliency"].values)


def test_a_visitor_who_goes_on_outdates_the_earlier_request(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.05)
    desk = studio.desks.of("a")
    first = explaining(studio, desk, ask(photo_file, ("occlusion", "smoothgrad")))
    seen = next(event for event in first if isinstance(event, Working) and event.share > 0)
    assert seen.what in ("occlusion", "smoothgrad")
    old = desk.job
    second = list(explaining(studio, desk, ask(photo_file, ("rollout",))))
    assert isinstance(second[-1], Ended)
    assert old is not None
    assert old.stopped
    assert not [event for event in first if isinstance(event, (Mapped, Ended))]


def test_drawing_anew_does_not_disturb_work_under_way(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch)
    desk = studio.desks.of("a")
    request = ask(photo_file, ("smoothgrad",))
    first = explaining(studio, desk, request)
    next(event for event in first if isinstance(event, Working) and event.share > 0)
    job = desk.job
    drawn = Request(request.scene, request.methods, display=Display(opacity=0.2))
    second = list(explaining(studio, desk, drawn))
    assert desk.job is job
    assert job is not None
    assert not job.stopped
    assert len(maps(second)) == 1


def test_cancel_stops_within_a_second_and_keeps_what_is_ready(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.05)
    desk, events = studio.desks.of("a"), []
    request = ask(photo_file, ("rollout", "occlusion"), parameters={"occlusion": {"window": 1}})
    for event in explaining(studio, desk, request):
        events.append(event)
        if isinstance(event, Working) and event.what == "occlusion":
            pressed = time.monotonic()
            desk.stop()
    assert time.monotonic() - pressed < 1
    assert events[-1] == Ended(stopped=True)
    assert list(maps(events)) == ["rollout"]
    assert desk.job is not None
    assert desk.job.wait(10)
    monkeypatch.undo()
    assert len(maps(list(explaining(studio, desk, request)))) == 2  # it can go on


def test_a_refused_method_gives_its_reason_and_the_others_their_maps(
    studio: Studio, photo_file: Path
) -> None:
    studio.models.add("max", wrap_model(tiny_vit(global_pool="max", class_token=False)))
    events = list(explaining(studio, studio.desks.of("a"), ask(photo_file, model="max")))
    refused = {event.name: event.reason for event in events if isinstance(event, Refused)}
    assert list(maps(events)) == ["saliency", "input_x_gradient"] or refused
    assert refused["rollout"] is not None
    assert "max" in refused["rollout"]


def test_a_model_without_a_head_has_no_class(studio: Studio, photo_file: Path) -> None:
    studio.models.add("headless", wrap_model(tiny_vit(num_classes=0)))
    request = ask(photo_file, model="headless", target=3)
    events = list(explaining(studio, studio.desks.of("a"), request))
    answered = next(event for event in events if isinstance(event, Answered))
    assert answered.target is None
    refused = {event.name: event.reason for event in events if isinstance(event, Refused)}
    assert {*refused} == {"saliency", "input_x_gradient"}
    assert refused["saliency"].key == "no_head"
    assert {*maps(events)} == {"attention", "rollout"}


def test_a_fault_in_one_method_leaves_the_others_their_maps(
    studio: Studio,
    photo_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    original = explain

    def faulty(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "rollout":
            raise RuntimeError("/secret broke")
        return original(name, *args, **kwargs)

    monkeypatch.setattr("app.studio.explain", faulty)
    events = list(explaining(studio, studio.desks.of("a"), ask(photo_file)))
    assert [event.name for event in events if isinstance(event, Refused)] == ["rollout"]
    assert [event.reason for event in events if isinstance(event, Refused)] == [None]
    assert len(maps(events)) == 3
    assert "/secret broke" in caplog.text


def test_a_wrong_setting_is_said_on_its_card(studio: Studio, photo_file: Path) -> None:
    request = ask(photo_file, ("attention", "rollout"), parameters={"attention": {"block": 99}})
    events = list(explaining(studio, studio.desks.of("a"), request))
    refused = next(event for event in events if isinstance(event, Refused))
    assert refused.reason is not None
    assert refused.reason.key == "bad_parameter"
    assert list(maps(events)) == ["rollout"]


def test_an_expired_result_is_made_again_and_a_deleted_photo_said(
    studio: Studio, photo_file: Path, runs: list[int]
) -> None:
    desk, request = studio.desks.of("a"), ask(photo_file, ("rollout",))
    first = maps(list(explaining(studio, desk, request)))["rollout"]
    studio.store.drop("a")
    second = maps(list(explaining(studio, desk, request)))["rollout"]
    assert len(runs) == 2
    assert np.array_equal(first.values, second.values)
    studio.store.drop("a")
    photo_file.unlink()
    with pytest.raises(PhotoError) as caught:
        list(explaining(studio, desk, request))
    assert caught.value.args[0].key == "photo_gone"


def test_a_visitor_who_leaves_stops_the_work_and_is_forgotten(
    studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.05)
    desk = studio.desks.of("a")
    events = explaining(studio, desk, ask(photo_file, ("smoothgrad",)))
    next(event for event in events if isinstance(event, Working) and event.share > 0)
    studio.desks.leave("a")
    assert desk.job is not None
    assert desk.job.wait(10)
    assert not desk.folder.exists()
    assert studio.store.bytes == 0


def test_many_visitors_at_once_get_the_serial_answers(studio: Studio, tmp_path: Path) -> None:
    wanted = []
    for number in range(8):
        path = tmp_path / f"{number}.png"
        Image.fromarray(tiny_photo_array(seed=number)).save(path)
        wanted.append(ask(path, model=("one", "two")[number % 2], target=number % 5))
    found: dict[int, dict[str, Any]] = {}

    def visit(number: int) -> None:
        desk = studio.desks.of(str(number))
        found[number] = maps(list(explaining(studio, desk, wanted[number])))

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, request in enumerate(wanted):
        vit = studio.models.ready(request.scene.model)
        assert vit is not None
        assert request.scene.photo is not None
        trace = vit.trace(load_photo(request.scene.photo))
        for name, heat in found[number].items():
            target = request.scene.target if methods()[name].class_specific else None
            assert np.array_equal(heat.values, explain(name, trace, target=target).values)
        assert len(found[number]) == 4


def test_what_a_trace_is_said_to_take_is_what_it_holds(studio: Studio, photo_file: Path) -> None:
    vit = studio.models.ready("one")
    assert vit is not None
    trace = vit.trace(load_photo(photo_file))
    held = sum(call.q.nbytes + call.k.nbytes for call in trace.calls)
    assert held <= trace_bytes(trace) <= 2 * held + trace.photo.pixels.nbytes


# -- photos and choices ----------------------------------------------------------------------


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


# -- what the widgets get ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def page() -> Page:
    return Page()


def shown(page: Page, studio: Studio, request: Request, lang: str = "en") -> Iterator[Any]:
    widgets, desk = page.widgets, studio.desks.of("a")
    showing = Showing(lang, request, studio, desk, widgets.chooser, widgets.tab, widgets.ranks)
    yield showing.begin()
    for event in explaining(studio, desk, request):
        yield showing.updates(event)


def merged(updates: Iterator[dict[Any, Any]]) -> dict[Any, Any]:
    """What the widgets show at last; every widget must be among the declared outputs."""
    state: dict[Any, Any] = {}
    for step in updates:
        for widget, update in step.items():
            if isinstance(update, dict):
                state[widget] = {**state.get(widget, {}), **update}
            else:
                state[widget] = update
    return state


def test_cards_show_picture_words_and_figures(page: Page, studio: Studio, photo_file: Path) -> None:
    request = ask(photo_file, (*QUICK, "integrated_gradients"), target=3)
    state = merged(shown(page, studio, request))
    assert {*state} <= {*page.widgets.shown}
    tab, chooser = page.widgets.tab, page.widgets.chooser
    for name, card in tab.cards.items():
        assert state[card.box]["visible"] is (name in request.methods)
    rollout, saliency = tab.cards["rollout"], tab.cards["saliency"]
    assert Path(state[rollout.image]["value"]).suffix == ".png"
    assert Image.open(state[rollout.image]["value"]).width == 800
    assert "Attention rollout" in state[rollout.image]["alt_text"]
    assert "same for every class" in state[rollout.text]
    assert "tokens that are no part of the photo" in state[rollout.text]
    assert "For the class lion" in state[saliency.text]
    completeness = tab.cards["integrated_gradients"]
    assert "Completeness" in state[completeness.text]
    assert state[completeness.baseline_box]["visible"] is True
    assert "hatched" in state[rollout.text]  # the photo is wider than the model's square
    assert state[chooser.target]["value"] == 3
    assert state[chooser.top]["value"].count("<button") == 5
    assert state[tab.save_all]["interactive"] is True
    assert state[tab.cancel].get("interactive", False) is False


def test_cards_speak_chinese(page: Page, studio: Studio, photo_file: Path) -> None:
    state = merged(shown(page, studio, ask(photo_file, ("rollout",)), "zh"))
    card = page.widgets.tab.cards["rollout"]
    assert "对所有类别都一样" in state[card.text]
    assert state[card.image]["alt_text"].startswith("注意力展开")
    assert "strongest" not in state[card.image]["alt_text"]


def test_labels_from_a_file_cannot_write_html(page: Page, studio: Studio, tmp_path: Path) -> None:
    labels = ["<img src=x onerror=alert(1)>"] * 5
    studio.models.add("evil", wrap_model(tiny_vit(), labels=labels))
    path = tmp_path / "<b>.png"
    Image.fromarray(tiny_photo_array()).save(path)
    state = merged(shown(page, studio, ask(path, model="evil")))
    card = page.widgets.tab.cards["saliency"]
    assert "&lt;img" in state[card.text]
    assert "<img" not in state[card.text]
    listed = state[page.widgets.chooser.top]["value"]
    assert listed.count("<button") == 5  # equal names are told apart
    assert "<img" not in listed


def test_no_photo_and_no_method_are_told_what_to_do(
    page: Page, studio: Studio, photo_file: Path
) -> None:
    hint = page.widgets.tab.hint
    nothing = merged(shown(page, studio, Request(Scene(), QUICK)))
    assert nothing[hint]["visible"] is True
    assert "Choose a photo" in nothing[hint]["value"]
    unticked = merged(shown(page, studio, ask(photo_file, ())))
    assert "Tick a method" in unticked[hint]["value"]
    assert merged(shown(page, studio, ask(photo_file)))[hint]["visible"] is False


def test_a_shared_scale_and_contours_are_drawn(
    page: Page, studio: Studio, photo_file: Path
) -> None:
    cards = page.widgets.tab.cards
    pictures = {}
    for display in (
        Display(),
        Display(extent="shared"),
        Display(style="contour"),
        Display(smooth=True),
    ):
        request = Request(ask(photo_file).scene, QUICK, display=display)
        state = merged(shown(page, studio, request))
        pictures[display] = [state[cards[name].image]["value"] for name in QUICK]
    assert len({tuple(paths) for paths in pictures.values()}) == 4


def test_cancelled_cards_are_emptied(
    page: Page, studio: Studio, photo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, 0.05)
    state: dict[Any, Any] = {}
    card = page.widgets.tab.cards["smoothgrad"]
    for step in shown(page, studio, ask(photo_file, ("rollout", "smoothgrad"))):
        if card.text in step and "progressbar" in str(step[card.text]):
            studio.desks.of("a").stop()
        state |= merged(iter([step]))
    assert state[card.image]["value"] is None
    assert "Cancelled" in state[card.text]
    assert "Cancelled" in state[page.widgets.tab.status]


def test_inside_the_model_or_the_reason(page: Page, studio: Studio) -> None:
    from app import inside_tab

    vit = studio.models.ready("one")
    assert vit is not None
    updates = inside_tab.show("en", vit, 3)
    assert len(updates) == len(page.widgets.inside.outputs())
    for picture, text in zip(updates[::2], updates[1::2], strict=True):
        assert picture["visible"] is True
        assert picture["alt_text"]
        assert text.startswith("<p>")
    assert "The 3 strongest components of the 16 filters" in updates[3]


# -- the page as a whole -----------------------------------------------------------------------


def test_importing_app_starts_nothing_and_loads_no_model(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("space_app", root / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.demo.is_running
    assert module.page.studio.models.names() == []


def test_the_page_keeps_photos_to_itself(page: Page) -> None:
    options = page.launch_options()
    assert options["run_history"] is False
    assert options["enable_monitoring"] is False
    assert options["show_error"] is False
    assert options["app_kwargs"]["middleware"]
    frequency, age = page.demo.delete_cache
    assert frequency + age <= 3600
    with pytest.raises(Exception, match="Web addresses are not accepted"):
        run_now(page.widgets.chooser.photo.async_move_resource_to_block_cache("https://a.b/c.png"))


def run_now(coroutine: Any) -> Any:
    import asyncio

    return asyncio.run(coroutine)


def test_every_control_has_a_name_and_public_endpoints_are_few(page: Page) -> None:
    public = {
        fn.api_name for fn in page.demo.fns.values() if fn.api_visibility == "public" and fn.fn
    }
    looking = {"explain", "attention", "measure", "compare", "figure", "figure7"}
    assert public == looking | {"models", "methods", "cost", "recipe", "replay"}
    for block in page.demo.blocks.values():
        if getattr(block, "interactive", None) and not hasattr(block, "variant"):
            assert getattr(block, "label", None), block


def test_what_the_page_was_not_told_is_told_again(
    page: Page, studio: Studio, photo_file: Path
) -> None:
    widgets, desk, request = page.widgets, studio.desks.of("a"), ask(photo_file, ("rollout",))

    def menu() -> tuple[Showing, bool]:
        """One request's side, and whether it fills the menu of classes."""
        showing = Showing("en", request, studio, desk, widgets.chooser, widgets.tab, widgets.ranks)
        updates = merged(showing.updates(event) for event in explaining(studio, desk, request))
        return showing, "choices" in updates[widgets.chooser.target]

    assert menu()[1] is True  # but a newer request came before that was told
    given, filled = menu()
    assert filled
    given.told()
    assert menu()[1] is False
