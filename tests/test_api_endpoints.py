"""The endpoints, asked by gradio_client of a page that is served: the library's own numbers."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.page import Page
from explainers import VisionModel, explain, load_photo, measure, methods, wrap_model
from explainers.models.catalogue import CATALOGUE
from explainers.recipe import open_recipe
from explainers.render.npz import read_npz
from explainers.trace import Trace
from explainers.views.agreement import agreement, difference
from explainers.views.cost import cost, shape_of
from tests.api_photo import file, photo
from tests.plain_http import ask
from tests.tiny import LABELS, tiny_vit

gradio_client = pytest.importorskip("gradio_client")

TINY = {"one": 0, "two": 1}
"""Name → seed of the small models that the page has."""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """The page, served with two small models; nothing else is loaded."""
    page = Page()
    for name, seed in TINY.items():
        page.studio.models.add(name, wrap_model(tiny_vit(seed=seed), labels=LABELS, name=name))
    page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    yield page
    page.demo.close()


@pytest.fixture(scope="module")
def client(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = str(tmp_path_factory.mktemp("answers"))
    found = gradio_client.Client(page.demo.local_url, verbose=False, download_files=folder)
    yield found
    found.close()


@pytest.fixture(scope="module")
def vits(page: Page) -> dict[str, VisionModel]:
    found = {name: page.studio.models.ready(name) for name in TINY}
    assert all(found.values())
    return found  # type: ignore[return-value]


@pytest.fixture(scope="module")
def trace(vits: dict[str, VisionModel], file: Path) -> Trace:
    return vits["one"].trace(load_photo(file))


# -- what is offered -------------------------------------------------------------------------

ASKED = {
    "/attention": ["photo", "model", "block", "head", "token", "direction"],
    "/compare": ["photo", "models", "methods", "target", "settings"],
    "/cost": ["model", "height", "width", "patch"],
    "/explain": [
        *("photo", "model", "methods", "target", "against"),
        *("size", "long_side", "settings"),
    ],
    "/figure": ["photos", "methods", "width", "suffix", "model", "target", "settings"],
    "/figure7": ["model", "photos", "suffix", "width"],
    "/measure": ["photo", "model", "method", "target", "against", "kind", "settings"],
    "/methods": [],
    "/models": [],
    "/recipe": [
        *("photo", "model", "methods", "target", "against"),
        *("size", "long_side", "settings"),
    ],
    "/replay": ["recipe", "photo"],
}


def test_every_endpoint_tells_what_it_takes_and_gives(client: Any) -> None:
    told = client.view_api(return_format="dict")["named_endpoints"]
    assert {name: [p["parameter_name"] for p in told[name]["parameters"]] for name in told} == ASKED
    for name, endpoint in told.items():
        assert len(endpoint["description"]) > 30, name
        for value in endpoint["parameters"]:
            assert value["python_type"]["description"], (name, value["parameter_name"])
            assert value["python_type"]["type"] not in ("", "Any"), (name, value)
            required = value["parameter_name"] in ("photo", "photos", "recipe")
            assert value["parameter_has_default"] is not required, (name, value)
        for result in endpoint["returns"]:
            assert result["python_type"]["description"], (name, result["label"])


def test_endpoints_wait_in_one_line_that_nobody_may_skip(page: Page, client: Any) -> None:
    public = [fn for fn in page.demo.fns.values() if fn.api_visibility == "public" and fn.fn]
    assert {f"/{fn.api_name}" for fn in public} == {*ASKED}
    assert {(fn.queue, fn.concurrency_id, fn.concurrency_limit) for fn in public} == {
        (True, "api", 4)
    }
    address = f"{page.demo.local_url}gradio_api/run/models"
    assert ask(address, {"data": []})[0] == 404


def test_models_and_methods_are_listed(client: Any, vits: dict[str, VisionModel]) -> None:
    found = {entry["name"]: entry for entry in client.predict(api_name="/models")}
    assert {*found} == {entry.name for entry in CATALOGUE} | {*TINY}
    for entry in CATALOGUE:
        assert found[entry.name]["weights"] == entry.state()
    assert found["one"]["loaded"] is True
    assert found["one"]["classes"] == vits["one"].classes == 5
    assert found["one"]["size"] == [16, 16]
    listed = {entry["name"]: entry for entry in client.predict(api_name="/methods")}
    assert {*listed} == {*methods()}
    assert [setting["name"] for setting in listed["attention"]["settings"]] == [
        *methods()["attention"].defaults
    ]


# -- their numbers ---------------------------------------------------------------------------


def test_explain_takes_settings_and_a_size(
    client: Any, photo: Any, file: Path, trace: Trace, vits: dict[str, VisionModel]
) -> None:
    settings = {"attention": {"block": 0, "head": 1}}
    answer, overlays, maps = client.predict(
        *(photo, "one", "attention, saliency", "lion"), settings=settings, api_name="/explain"
    )
    assert [entry["label"] for entry in answer["top"]] == [label for _, label, _ in trace.top(5)]
    assert answer["refused"] == {}
    assert len(overlays) == 2
    made = read_npz(maps)
    wanted = explain("attention", trace, block=0, head=1)
    assert np.array_equal(made["attention"], wanted.values)
    assert np.array_equal(made["saliency"], explain("saliency", trace, target="lion").values)
    for side in (32, None):
        whole = vits["one"].whole(load_photo(file), side).trace(load_photo(file))
        _, _, maps = client.predict(
            photo, "one", "rollout", size="whole", long_side=side, api_name="/explain"
        )
        assert np.array_equal(read_npz(maps)["rollout"], explain("rollout", whole).values)
    _, _, maps = client.predict(
        photo, "one", "rollout", size="windows", long_side=32, api_name="/explain"
    )
    assert read_npz(maps)["provenance"]["rollout"]["windows"]["long_side"] == 32


@pytest.mark.parametrize(("token", "number"), [("", None), ("cls", 0), ("3", 3), ("1,2", 7)])
@pytest.mark.parametrize(("head", "which"), [("mean", None), ("1", 1)])
def test_attention_of_a_token(
    client: Any, photo: Any, trace: Trace, token: str, number: int, head: str, which: int | None
) -> None:
    row = number or 0
    for direction in ("looks", "looked_at"):
        picture, found = client.predict(
            *(photo, "one", 1, head, token, direction), api_name="/attention"
        )
        every = trace.attention(1).mean(0) if which is None else trace.attention(1, which)
        line = every[row] if direction == "looks" else every[:, row]
        values = np.array(found["values"])
        assert values.shape == trace.grid == tuple(found["grid"])
        np.testing.assert_allclose(values.ravel(), line[1:].numpy(), rtol=1e-9)
        assert found["block"] == 1
        if direction == "looks":
            assert found["prefix_share"] == pytest.approx(float(line[0]))
            assert found["token"] == number
        with Image.open(picture) as image:
            assert (image.format, image.size) == ("PNG", (60, 40))


@pytest.mark.parametrize("kind", ["deletion", "insertion"])
def test_measure_gives_the_librarys_curves(
    client: Any, photo: Any, trace: Trace, kind: Any
) -> None:
    found = client.predict(photo, "one", "saliency", "teapot", kind=kind, api_name="/measure")
    heat = explain("saliency", trace, target="teapot")
    wanted = measure(heat, trace, kind, full=True)
    assert found["sentence"] == str(wanted.sentence)
    assert found["comparison"] == str(wanted.comparison)
    assert found["target"]["label"] == "teapot"
    np.testing.assert_allclose(found["map"]["values"], wanted.curve.values)
    np.testing.assert_allclose(found["map"]["shares"], wanted.curve.shares)
    assert found["map"]["area"] == pytest.approx(wanted.area)
    assert (found["random"]["area"], found["random"]["area_deviation"]) == pytest.approx(
        wanted.random_area
    )
    assert found["centre"]["area"] == pytest.approx(wanted.centre.area)  # type: ignore[union-attr]


def test_compare_two_methods_of_one_model(client: Any, photo: Any, trace: Trace) -> None:
    found, overlays, differences = client.predict(
        photo, "one", "rollout, saliency, feature_pca", "lion", api_name="/compare"
    )
    heats = [explain("rollout", trace), explain("saliency", trace, target="lion")]
    wanted = agreement(heats)  # type: ignore[arg-type]
    np.testing.assert_allclose(found["spearman"], wanted.spearman)
    np.testing.assert_allclose(found["overlap"], wanted.overlap)
    assert found["grid"] == list(wanted.geometry.grid)
    assert [entry["method"] for entry in found["maps"]] == ["rollout", "saliency", "feature_pca"]
    assert len(found["ranked"]) == 2  # the colours of the third have no order
    assert len(overlays) == 3
    assert differences == found["differences"] == []


def test_compare_two_models_gives_their_difference(
    client: Any, photo: Any, file: Path, vits: dict[str, VisionModel]
) -> None:
    found, overlays, differences = client.predict(
        photo, "one, two", "saliency", "espresso", api_name="/compare"
    )
    heats = [
        explain("saliency", vit.trace(load_photo(file)), target="espresso") for vit in vits.values()
    ]
    wanted = difference(*heats)  # type: ignore[arg-type]
    assert len(overlays) == 2
    assert len(differences) == 1
    (made,) = found["differences"]
    np.testing.assert_allclose(made["values"], wanted.values)
    assert {entry["model"] for entry in found["maps"]} == {*TINY}
    assert {*found["answers"]} == {*TINY}


@pytest.mark.parametrize("suffix", [".pdf", ".svg", ".png", ".tiff"])
def test_a_figure_is_a_file_with_its_recipe(
    client: Any, photo: Any, trace: Trace, suffix: str
) -> None:
    path, caption, bibtex = client.predict(
        [photo], "rollout, saliency", 60, suffix, "one", "lion", api_name="/figure"
    )
    assert Path(path).suffix == suffix
    recipe = open_recipe(path)
    assert [made["method"] for made in recipe.maps] == ["rollout", "saliency"]
    assert recipe.maps[1]["target"]["label"].startswith("lion")
    assert recipe.photos == (trace.photo.sha256,)
    assert "photo" in caption
    assert bibtex.count("@") == 2
    if suffix == ".png":
        with Image.open(path) as image:
            assert image.width == pytest.approx(60 / 25.4 * 300, abs=1)


def test_figure7_of_a_model(client: Any, photo: Any) -> None:
    path, caption, bibtex = client.predict("one", [photo], ".svg", 120, api_name="/figure7")
    assert Path(path).name == "figure7.svg"
    assert re.search(r'width="340\.\d+pt"', Path(path).read_text(encoding="utf-8"))
    assert "over 1 photo" in caption
    assert bibtex.startswith("@inproceedings{dosovitskiy")


def test_the_cost_is_that_of_the_shape(client: Any, vits: dict[str, VisionModel]) -> None:
    shape = shape_of(vits["one"])
    own = client.predict("one", api_name="/cost")
    assert own["photo"] == [16, 16]
    assert own["cost"]["tokens"] == 17
    found = client.predict("one", 64, 32, 8, api_name="/cost")
    wanted = cost(type(shape)(**{**vars(shape), "patch": 8}), 64, 32)
    assert found["cost"] == {**vars(wanted), "operations": wanted.operations}
    assert found["shape"]["patch"] == 8


@pytest.mark.parametrize(
    "look", [{}, {"size": "whole", "long_side": 32}, {"size": "windows", "long_side": 32}]
)
def test_a_recipe_is_replayed_to_the_same_bytes(
    client: Any, photo: Any, tmp_path: Path, look: dict[str, Any]
) -> None:
    asked = (photo, "one", "rollout, occlusion", "lion")
    settings = {"occlusion": {"window": 1}}
    _, _, maps = client.predict(*asked, **look, settings=settings, api_name="/explain")
    recipe, path = client.predict(*asked, **look, settings=settings, api_name="/recipe")
    assert json.loads(Path(path).read_text(encoding="utf-8")) == recipe
    assert [made["method"] for made in recipe["maps"]] == ["rollout", "occlusion"]
    for saved in (path, maps):
        given = gradio_client.handle_file(saved)
        made, notes = client.predict(given, photo, api_name="/replay")
        assert Path(made).read_bytes() == Path(maps).read_bytes()
        assert notes == []
    changed = tmp_path / "recipe.json"
    recipe["maps"][0]["threads"] = 500
    changed.write_text(json.dumps(recipe), encoding="utf-8")
    _, notes = client.predict(gradio_client.handle_file(str(changed)), photo, api_name="/replay")
    assert len(notes) == 1
    assert "500 threads" in notes[0]


def test_calls_of_one_session_wait_for_one_another(client: Any, photo: Any, trace: Trace) -> None:
    names = ["rollout", "saliency", "relevance", "legrad"]

    def ask(name: str) -> np.ndarray:
        return read_npz(client.predict(photo, "one", name, api_name="/explain")[2])[name]

    with ThreadPoolExecutor(len(names)) as pool:
        found = dict(zip(names, pool.map(ask, names), strict=True))
    for name, values in found.items():
        assert np.array_equal(values, explain(name, trace).values)


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_example_and_the_table_of_the_readme(
    page: Page, root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text = (root / name).read_text(encoding="utf-8")
    (example,) = re.findall(r"```py\n(from gradio_client .*?)```", text, re.DOTALL)
    assert {*re.findall(r"^\| `(/\w+)", text, re.MULTILINE)} == {*ASKED}
    for endpoint, names in re.findall(r"^\| `(/\w+)` \| ([^|]*) \|", text, re.MULTILINE):
        assert re.findall(r"`(\w+)`", names) == ASKED[endpoint], endpoint
    monkeypatch.chdir(root)
    found: dict[str, Any] = {}
    exec(example.replace("http://127.0.0.1:7860", page.demo.local_url), found)
    assert found["answer"]["top"][0]["label"].startswith("lion")
    assert read_npz(found["maps"])["saliency"].shape == (14, 14)
    found["page"].close()
