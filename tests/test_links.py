"""Links and recipes of a view: told and read again the same, and every value checked."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import gradio as gr
import pytest

from app import compare_links, compare_tab, example_photos, links, settings
from app.link_events import found_in, page_state
from app.link_fit import fit
from app.link_reading import from_query, read
from app.links import View, view_of
from app.page import Page
from app.scene import Display, Request, Scene
from explainers import explain, load_photo, methods, wrap_model
from explainers.look import Look
from explainers.models.sizes import at_size
from explainers.recipe import save_recipe
from explainers.separate_looks import SeparateLooks
from tests.tiny import LABELS, tiny_photo_array, tiny_vit

VIT = wrap_model(tiny_vit(), labels=LABELS, name="one")
REQUEST = Request(
    Scene("lion.jpg", "one", target=3, against=1, look=Look("whole", 448)),
    ("attention", "occlusion", "rollout"),
    {
        "attention": {"block": 0, "head": 1, "row": None},
        "rollout": {"discard": 0.9, "fusion": "max"},
        "kernel_shap": {"samples": 7},
    },
    Display(opacity=0.25, style="map", extent="shared", smooth=True),
)


def queried(query: str) -> tuple[View, list[Any]]:
    return read(from_query(dict(parse_qsl(query))))


@pytest.mark.parametrize("way", ["link", "file"])
def test_a_view_comes_back_as_it_was_told(way: str) -> None:
    told = view_of(REQUEST, "anatomy", "norm", "lion", VIT)
    raw = from_query(dict(parse_qsl(told.query()))) if way == "link" else json.loads(told.to_json())
    view, problems = read(raw)
    fitted, more = fit(view, VIT)
    assert problems == more == []
    assert (view.photo, view.model, view.tab, view.step) == ("lion", "one", "anatomy", "norm")
    assert (fitted.target, fitted.against) == (3, 1)
    assert view.methods == REQUEST.methods
    assert view.look == REQUEST.scene.look
    assert Display(**{**asdict(Display()), **view.display}) == REQUEST.display
    expected = {"attention": {"block": 0, "head": 1}, "rollout": {"discard": 0.9, "fusion": "max"}}
    assert fitted.parameters == expected


def test_what_is_usual_makes_a_short_link() -> None:
    request = Request(
        Scene("x.jpg", "one"), ("attention",), {"attention": {"block": 2, "head": "mean"}}
    )
    told = view_of(request, "explain", "norm", "koala", VIT)
    assert told.query() == "photo=koala&model=one&tab=explain&methods=attention"
    assert view_of(request, "elsewhere", None, None, None).query().startswith("model=one&tab=")


@pytest.mark.parametrize("way", ["link", "file"])
def test_what_is_compared_travels(way: str) -> None:
    given = [["one", "two"], ["rollout"], ["@1", "tabby, tabby cat"], [5, 0], "shared"]
    with gr.Blocks():
        tab = compare_tab.build(Page().texts, methods(), [])
    told = view_of(REQUEST, "compare", None, "lion", VIT, compare_links.told(tab, given))
    raw = from_query(dict(parse_qsl(told.query()))) if way == "link" else json.loads(told.to_json())
    view, problems = read(raw)
    assert problems == []
    assert view.compare == told.compare
    shown = compare_links.updates(tab, view.compare)
    assert [shown[w]["value"] for w in compare_links.fields(tab).values()] == given
    elsewhere = view_of(REQUEST, "explain", None, "lion", VIT, told.compare)
    assert "compare." not in elsewhere.query()


def test_an_emptied_list_in_a_link_says_nothing() -> None:
    view, problems = read(from_query({"compare.methods": "", "compare.models": ""}))
    assert (view.compare, problems) == ({}, [])


BOARDS = [
    {"block": 2, "head": 1, "token": 7, "who": True},
    {"block": 0, "head": "rolled", "token": -1, "who": False, "scale": "fixed", "opacity": 0.35},
]


@pytest.mark.parametrize("way", ["link", "file"])
@pytest.mark.parametrize("board", BOARDS)
def test_what_the_attention_tab_looks_at_travels(board: dict[str, Any], way: str) -> None:
    tab, given = page_state(json.dumps({"tab": "attention", "board": board}))
    told = view_of(REQUEST, tab, None, "lion", VIT, None, given)
    raw = from_query(dict(parse_qsl(told.query()))) if way == "link" else json.loads(told.to_json())
    view, problems = read(raw)
    fitted, more = fit(view, VIT)
    assert problems == more == []
    assert fitted.board == board
    assert "board." not in view_of(REQUEST, "explain", None, "lion", VIT, None, given).query()


@pytest.mark.parametrize("way", ["link", "file"])
def test_where_the_anatomy_tab_stands_travels(way: str) -> None:
    place = {"row": 3, "column": 1, "block": 1, "head": 0, "asks": "0"}
    told = view_of(REQUEST, "anatomy", "scores", "lion", VIT, place=place)
    raw = from_query(dict(parse_qsl(told.query()))) if way == "link" else json.loads(told.to_json())
    view, problems = read(raw)
    fitted, more = fit(view, VIT)
    assert problems == more == []
    assert fitted.place == place
    assert "place." not in view_of(REQUEST, "explain", None, "lion", VIT, place=place).query()


@pytest.mark.parametrize("told", ["", None, "{", "3", "[]", '{"board": 3}'])
def test_a_page_that_tells_nonsense_tells_nothing(told: Any) -> None:
    assert page_state(told) == (None, {})


def test_every_setting_of_every_method_travels() -> None:
    """Not one control's value changes its kind on the way."""
    page, values = Page(), []
    for place in settings.places(methods()):
        control: Any = page.widgets.tab.controls[place]
        choices = [value for _, value in getattr(control, "choices", None) or []]
        values.append(choices[-1] if choices else getattr(control, "minimum", None) or 0)
    given = settings.read(methods(), values)
    told = view_of(Request(Scene(), tuple(methods()), given), "explain", None, None, VIT)
    view, problems = queried(told.query())
    assert problems == []
    assert {k: dict(v) for k, v in view.parameters.items()} == told.parameters


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("photo=dragon", "photo cannot be dragon here, so that is left out; it can be: espresso,"),
        ("tab=cellar", "tab cannot be cellar"),
        ("step=7", "step cannot be 7"),
        ("methods=rollout,magic", "methods cannot be magic"),
        ("magic.power=3", "methods cannot be magic"),
        ("opacity=2", "opacity cannot be 2 here, so that is left out; it can be: a number from"),
        ("opacity=nan", "opacity cannot be nan"),
        ("style=<script>", "style cannot be <script>"),
        ("unsigned=RdBu_r", "unsigned cannot be RdBu_r"),
        ("smooth=maybe", "smooth cannot be maybe"),
        ("look=telescope", "look cannot be telescope"),
        ("look=whole&side=9999", "side cannot be 9999"),
        ("compare.methods=magic", "compare.methods cannot be magic"),
        ("compare.photos=dragon", "compare.photos cannot be dragon"),
        ("compare.scale=vast", "compare.scale cannot be vast"),
        ("compare.spirit=1", "compare cannot be spirit"),
        ("compare.models=a|b|c|d", "compare.models cannot be 4 names"),
        ("board.block=-1", "board.block cannot be -1"),
        ("board.head=tail", "board.head cannot be tail"),
        ("board.who=maybe", "board.who cannot be maybe"),
        ("board.spirit=1", "board cannot be spirit"),
        ("board.scale=vast", "board.scale cannot be vast"),
        ("board.opacity=7", "board.opacity cannot be 7"),
        ("place.row=0", "place.row cannot be 0"),
        ("place.asks=nobody", "place.asks cannot be nobody"),
        ("place.spirit=1", "place cannot be spirit"),
    ],
)
def test_a_wrong_value_is_left_out_in_one_sentence(query: str, said: str) -> None:
    view, problems = queried("model=one&" + query)
    assert [str(p)[: len(said)] for p in problems] == [said]
    assert view.model == "one"
    assert View(model="one", methods=view.methods, parameters=view.parameters) == view


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"model": 3}, "model cannot be 3 here, so that is left out; it can be: a name."),
        ({"methods": "rollout"}, "methods cannot be rollout here"),
        ({"methods": {"a": 1}}, "methods cannot be {'a': 1} here"),
        ({"look": "whole"}, "look cannot be whole here"),
        ({"look": {"long_side": 448}}, "look cannot be None here"),
        ({"parameters": [1]}, "parameters cannot be [1] here"),
        ({"parameters": {"rollout": 3}}, "rollout cannot be 3 here"),
        ({"display": "x"}, "display cannot be x here"),
        ({"display": {"shine": 1}}, "display cannot be shine here"),
        ({"compare": 3}, "compare cannot be 3 here"),
        ({"compare": {"models": "a"}}, "compare.models cannot be a here"),
        ({"compare": {"scale": [1]}}, "compare.scale cannot be [1] here"),
    ],
)
def test_a_wrong_kind_of_value_is_left_out_in_one_sentence(raw: dict[str, Any], said: str) -> None:
    view, problems = read(raw)
    assert [str(p)[: len(said)] for p in problems] == [said]
    assert view == View()


def test_a_contrast_that_is_the_class_itself_is_left_out_in_a_sentence() -> None:
    fitted, problems = fit(View(target="teapot", against={"index": LABELS.index("teapot")}), VIT)
    assert fitted.target == LABELS.index("teapot")
    assert fitted.against is None
    assert [str(p) for p in problems] == [
        "The contrast is the class itself (teapot), so it is left out; choose another."
    ]


def test_classes_chosen_for_an_own_photo_are_not_in_the_link() -> None:
    told = view_of(REQUEST, "explain", None, None, VIT)
    assert "target=" not in told.query()
    assert "against=" not in told.query()
    assert json.loads(told.to_json())["target"] == {"index": 3, "label": VIT.label(3)}
    assert "target=3&against=1" in view_of(REQUEST, "explain", None, "lion", VIT).query()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("target=77", "class"),
        ("target=dragon", "class"),
        ("board.block=3", "board.block cannot be 3 here, so that is left out; it can be: 0 … 2."),
        ("board.head=2", "board.head cannot be 2 here"),
        ("place.block=3", "place.block cannot be 3 here"),
        ("attention.block=3", "Setting block must be a whole number in -3..2"),
        ("attention.head=magic", "Setting head must be"),
        ("attention.spirit=1", "attention has no setting 'spirit'"),
        ("rollout.discard=inf", "Setting discard must be"),
    ],
)
def test_what_the_model_does_not_have_is_left_out(query: str, said: str) -> None:
    view, problems = queried(query)
    fitted, more = fit(view, VIT)
    assert problems == []
    assert len(more) == 1
    assert said in str(more[0])
    assert (fitted.target, dict(fitted.parameters)) == (None, {})


def test_odd_files_and_values_are_refused_in_a_sentence(tmp_path: Path) -> None:
    for number, odd in enumerate(
        ("", "[]", "{", "7", '{"a": 1}', "[" * 100_000, '{"maps": [{"method": 3}]}')
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(odd, encoding="utf-8")
        with pytest.raises(ValueError, match="holds no recipe"):
            found_in(path)
    for raw in (
        {"methods": "rollout", "parameters": [1], "display": "x", "look": 3, "model": 5},
        {"photo": ["lion"], "target": [1], "methods": [[1], None], "parameters": {"rollout": 3}},
        {"look": {"kind": ["own"]}, "display": {"style": {}, "smooth": [], "opacity": "x"}},
        {"target": {"index": 10**400}, "against": True, "parameters": {"attention": {"block": {}}}},
    ):
        view, _ = read(raw)
        fit(view, VIT)


def test_a_class_that_has_another_name_here_is_left_out() -> None:
    view, _ = read({"target": {"index": 2, "label": "tea"}, "against": {"index": 1}})
    fitted, problems = fit(view, VIT)
    assert (fitted.target, fitted.against) == (None, 1)
    assert "Class 2 is tea in the recipe and espresso here" in str(problems[0])
    headless = wrap_model(tiny_vit(num_classes=0))
    assert "no classification head" in str(fit(View(target=1), headless)[1][0])
    assert fit(View(target="1", against=1), VIT)[0].against is None


def test_a_recipe_of_maps_is_a_view_too(tmp_path: Path) -> None:
    for photo, name in ((load_photo(example_photos.path(2)), "koala"), (None, None)):
        trace = VIT.trace(photo or load_photo(tiny_photo_array()))
        heats: list[Any] = [
            explain("attention", trace, block=0),
            explain("grad_cam", trace, target=3, against=1),
        ]
        raw, problems = found_in(save_recipe(heats, tmp_path / "maps.json"))
        view, wrong = read(raw)
        fitted, more = fit(view, VIT)
        assert wrong == more == []
        assert (view.photo, len(problems)) == (name, name is None)
        assert (view.model, view.methods) == ("one", ("attention", "grad_cam"))
        assert (fitted.target, fitted.against) == (3, 1)
        assert fitted.parameters["attention"]["block"] == 0
    assert links.TABS == ("explain", "attention", "inside", "anatomy", "compare")


@pytest.mark.parametrize("side", [60, 57, 91])
def test_a_recipe_of_another_look_is_shown_with_that_look(tmp_path: Path, side: int) -> None:
    vit = wrap_model(tiny_vit(dynamic_img_size=True), labels=LABELS, name="one")
    photo = load_photo(example_photos.path(2))  # 600 × 800
    whole = Look("whole", side)
    heat: Any = explain("saliency", whole.model(vit, photo).trace(photo))
    raw, _ = found_in(save_recipe([heat], tmp_path / "maps.json"))
    look = raw["look"]
    again = Look(look["kind"], look["long_side"]).model(vit, photo)
    assert again.preprocessing == whole.model(vit, photo).preprocessing
    windows: Any = SeparateLooks(vit, photo, 112)
    heat = windows.explain("saliency")
    raw, _ = found_in(save_recipe([heat], tmp_path / "windows.json"))
    assert raw["look"] == {"kind": "windows", "long_side": 112}


def test_maps_of_a_size_that_the_page_has_not_are_said_to_differ(tmp_path: Path) -> None:
    vit = wrap_model(tiny_vit(dynamic_img_size=True), labels=LABELS, name="one")
    trace = at_size(vit, (28, 84)).trace(load_photo(example_photos.path(2)))
    heat: Any = explain("saliency", trace)
    raw, _ = found_in(save_recipe([heat], tmp_path / "maps.json"))
    _, problems = fit(read(raw)[0], vit)
    assert [str(p) for p in problems] == [
        "The maps were made at 28×84 pixels (height × width); here the model looks at 16×16, "
        "so they differ."
    ]


def test_an_example_is_known_by_its_pixels(tmp_path: Path) -> None:
    assert example_photos.name_of(load_photo(example_photos.path(1))) == "lion"
    other = tmp_path / "lion.png"
    load_photo(tiny_photo_array()).to_pil().save(other)
    assert example_photos.name_of(load_photo(other)) is None
