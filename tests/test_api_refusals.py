"""What the endpoints refuse, each time in one plain sentence; and that nobody reads the server."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import base64
import io
import json
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app import api_call
from app.comparison import PHOTOS
from app.page import Page
from explainers import wrap_model
from tests.api_photo import file, photo
from tests.plain_http import ask, end_of_call, upload
from tests.tiny import LABELS, tiny_vit

gradio_client = pytest.importorskip("gradio_client")

PHOTO = object()
"""Stands for the photo in the values below."""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """The page, served with one small model and its tools for assistants."""
    page = Page()
    page.studio.models.add("one", wrap_model(tiny_vit(), labels=LABELS, name="one"))
    page.studio.models.add("headless", wrap_model(tiny_vit(num_classes=0), name="headless"))
    mcp = {"mcp_server": True} if _has_mcp() else {}
    page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **mcp)
    yield page
    page.demo.close()


def _has_mcp() -> bool:
    from app.options import mcp_problem

    return mcp_problem(True) is None


@pytest.fixture(scope="module")
def client(page: Page) -> Iterator[Any]:
    found = gradio_client.Client(page.demo.local_url, verbose=False, download_files=False)
    yield found
    found.close()


def refused(client: Any, name: str, *values: Any, **named: Any) -> str:
    """The sentence that a call fails with."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - a class of the client's own
        client.predict(*values, api_name=name, **named)
    text = str(caught.value)
    assert text.endswith("."), text
    assert "\n" not in text, text
    assert "Traceback" not in text, text
    assert "/tmp" not in text, text
    return text


EXPLAIN: list[tuple[dict[str, Any], str]] = [
    ({"photo": None}, "No photo came"),
    ({"methods": "nonsense"}, "There is no method 'nonsense'"),
    ({"model": "vit_tiny_patch16_224"}, "is not on this machine"),
    ({"model": "../weights.safetensors"}, "takes the names of models, not files"),
    ({"target": "dragon"}, "dragon"),
    ({"target": "7"}, "7"),
    ({"against": "dragon"}, "dragon"),
    ({"size": "huge"}, "size cannot be huge; it can be: own, whole, windows."),
    ({"size": ["own"]}, "size cannot be"),
    ({"long_side": 32}, "long_side cannot be 32; it can be: null, where size is own."),
    ({"size": "whole", "long_side": 4000}, "from 1 to 2048"),
    ({"size": "whole", "long_side": 31.5}, "from 1 to 2048"),
    ({"size": "windows", "long_side": "x"}, "from 1 to 2048"),
    ({"size": "whole", "long_side": 1}, "at least one patch"),
    ({"settings": "x"}, "Settings are a JSON object"),
    ({"settings": [1]}, "Settings are a JSON object"),
    ({"settings": {"attention": 3}}, "settings of attention came as 3"),
    ({"settings": {"nonsense": {}}}, "There is no method 'nonsense'"),
    ({"settings": {"attention": {"bloc": 1}}}, "attention has no setting 'bloc'"),
    ({"settings": {"attention": {"block": 99}}}, "Setting block must be a whole number in -3..2"),
    ({"settings": {"attention": {"head": {"a": 1}}}}, "Setting head must be"),
    ({"settings": {"rise": {"samples": 10**9}}}, "rise|Setting"),
    ({"methods": "saliency", "target": "3", "against": "3"}, "contrast is the explained class"),
]


@pytest.mark.parametrize("name", ["/explain", "/recipe"])
@pytest.mark.parametrize(("values", "sentence"), EXPLAIN, ids=lambda value: str(value)[:40])
def test_explain_and_recipe_refuse(
    client: Any, photo: Any, name: str, values: dict[str, Any], sentence: str
) -> None:
    asked = {"photo": photo, "model": "one", **values}
    assert re.search(sentence, refused(client, name, **asked))


OTHERS: list[tuple[str, dict[str, Any], str]] = [
    ("/recipe", {"methods": ""}, "no map to save"),
    ("/recipe", {"model": "headless", "methods": "saliency"}, "class"),
    ("/attention", {"photo": None}, "No photo came"),
    ("/attention", {"block": 99}, "Setting block must be a whole number in -3..2"),
    ("/attention", {"block": "x"}, "Setting block must be"),
    ("/attention", {"head": "7"}, "Setting head must be"),
    ("/attention", {"head": "x"}, "head cannot be x"),
    ("/attention", {"head": "7", "direction": "looked_at"}, "Setting head must be"),
    ("/attention", {"token": "99"}, "Setting row must be"),
    ("/attention", {"token": "4,0"}, "token cannot be 4,0; it can be: CLS, 0 … 16, 0,0 … 3,3."),
    ("/attention", {"token": "-1"}, "token cannot be -1"),
    ("/attention", {"direction": "up"}, "direction cannot be up; it can be: looks, looked_at."),
    ("/measure", {"photo": None}, "No photo came"),
    ("/measure", {"method": "nonsense"}, "There is no method 'nonsense'"),
    ("/measure", {"kind": "both"}, "kind cannot be both; it can be: deletion, insertion."),
    ("/measure", {"model": "headless"}, "class"),
    ("/measure", {"settings": {"rollout": {"x": 1}}}, "has no setting 'x'"),
    ("/compare", {"methods": "rollout"}, "takes two maps or more"),
    ("/compare", {"methods": "rollout, nonsense"}, "There is no method 'nonsense'"),
    ("/compare", {"models": "one, a, b, c"}, "at most 36 are compared at once"),
    ("/compare", {"models": "nobody, no-one"}, "nobody"),
    ("/cost", {"height": "x"}, "x was given"),
    ("/cost", {"height": 10**9}, "from 1 to 100000"),
    ("/cost", {"patch": 999}, "A patch of 999 pixels does not fit"),
    ("/cost", {"model": "vit_tiny_patch16_224"}, "is not on this machine"),
    ("/figure", {"photos": []}, "0 photos came; give from 1 to 4 files"),
    ("/figure", {"photos": [PHOTO] * (PHOTOS + 1)}, "5 photos came"),
    ("/figure", {"width": 3}, "The figure's width must be from 20 to 500"),
    ("/figure", {"width": "x"}, "width cannot be x; it can be: a number of mm."),
    ("/figure", {"suffix": ".exe"}, "A figure is saved as"),
    ("/figure", {"suffix": "/../x.pdf"}, "A figure is saved as"),
    ("/figure", {"methods": ""}, "at least one photo, one model, one method"),
    ("/figure", {"model": "headless", "methods": "rollout, saliency"}, "class"),
    ("/figure", {"target": "dragon"}, "dragon"),
    ("/figure7", {"photos": []}, "0 photos came; give from 1 to 128 files"),
    ("/figure7", {"suffix": "pdf"}, "A figure is saved as"),
    ("/figure7", {"width": 21}, "do not fit into 21 mm"),
    ("/replay", {"recipe": None}, "No recipe came"),
]
USUAL: dict[str, dict[str, Any]] = {
    "/recipe": {"photo": PHOTO, "model": "one"},
    "/attention": {"photo": PHOTO, "model": "one"},
    "/measure": {"photo": PHOTO, "model": "one"},
    "/compare": {"photo": PHOTO, "models": "one"},
    "/cost": {"model": "one"},
    "/figure": {"photos": [PHOTO], "model": "one"},
    "/figure7": {"photos": [PHOTO], "model": "one"},
    "/replay": {"photo": PHOTO},
}


@pytest.mark.parametrize(("name", "values", "sentence"), OTHERS, ids=lambda value: str(value)[:30])
def test_the_others_refuse(
    client: Any, photo: Any, name: str, values: dict[str, Any], sentence: str
) -> None:
    asked = {**USUAL[name], **values}
    for key, value in asked.items():
        if isinstance(value, list):
            asked[key] = [photo if one is PHOTO else one for one in value]
        elif value is PHOTO:
            asked[key] = photo
    assert sentence in refused(client, name, **asked)


# -- recipes that anybody may have written -----------------------------------------------------


@pytest.fixture(scope="module")
def recipe(client: Any, photo: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.predict(photo, "one", "rollout", api_name="/recipe")[0]
    return found


def given(recipe: dict[str, Any], folder: Path, name: str = "recipe.json") -> Any:
    path = folder / name
    path.write_text(json.dumps(recipe), encoding="utf-8")
    return gradio_client.handle_file(str(path))


def made(recipe: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The recipe of one map with some of its values changed."""
    (one,) = recipe["maps"]
    return {"vitscope_recipe": 1, "maps": [{**one, **changes}]}


def test_a_recipe_of_another_photo_or_other_weights_is_refused(
    client: Any, photo: Any, recipe: dict[str, Any], tmp_path: Path
) -> None:
    for changes, sentence in (
        ({"photo_sha256": "0" * 64}, "made from another photo"),
        ({"loaded_weights_sha256": "0" * 64}, "made with other weights"),
        ({"precision": "bfloat16"}, "was made in bfloat16"),
        ({"model": "vit_tiny_patch16_224"}, "is not on this machine"),
        ({"model": "../one.safetensors"}, "takes the names of models, not files"),
        ({"method": "nonsense"}, "There is no method"),
        ({"parameters": {"x": 1}}, "has no setting 'x'"),
        ({"windows": {"long_side": 32, "overlap": 0.9}}, "in a way that this page does not"),
        ({"windows": {"long_side": 10**6, "overlap": 0.25}}, "windows"),
    ):
        file = given(made(recipe, **changes), tmp_path)
        assert sentence in refused(client, "/replay", file, photo), changes


def test_a_recipe_cannot_ask_for_sizes_without_end(
    client: Any, photo: Any, recipe: dict[str, Any], tmp_path: Path
) -> None:
    (one,) = recipe["maps"]
    for size in ([99996, 99996], [4, 99996], [20, 20]):
        look = {**one["preprocessing"], "size": size}
        file = given(made(recipe, preprocessing=look), tmp_path)
        text = refused(client, "/replay", file, photo)
        assert f"{size[0]}×{size[1]} pixels in a way that this page does not" in text
    many = {"vitscope_recipe": 1, "maps": [one] * 37}
    assert "has 37 maps of 1 models" in refused(client, "/replay", given(many, tmp_path), photo)


def test_what_is_no_recipe_is_refused_by_its_name(
    client: Any, photo: Any, file: Path, tmp_path: Path
) -> None:
    for name in ("note.json", "note.npz", "note.pdf", "note.txt"):
        path = tmp_path / name
        path.write_text("this is no recipe", encoding="utf-8")
        text = refused(client, "/replay", gradio_client.handle_file(str(path)), photo)
        assert f"{name} holds no recipe" in text
    text = refused(client, "/replay", photo, photo)
    assert f"{file.name} holds no recipe" in text


def test_an_archive_that_would_unpack_to_too_much_is_not_unpacked(
    client: Any, photo: Any, tmp_path: Path
) -> None:
    path, member = tmp_path / "bomb.npz", io.BytesIO()
    np.lib.format.write_array(member, np.zeros(70_000_000, np.uint8))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("provenance.npy", member.getvalue())
    assert path.stat().st_size < 1_000_000
    text = refused(client, "/replay", gradio_client.handle_file(str(path)), photo)
    assert "bomb.npz holds no recipe" in text


# -- the server's own files --------------------------------------------------------------------

FILES = {
    "explain": lambda file: [file, "one", "rollout", "", "", "own", None, None],
    "recipe": lambda file: [file, "one", "rollout", "", "", "own", None, None],
    "attention": lambda file: [file, "one", -1, "mean", "", "looks"],
    "measure": lambda file: [file, "one", "rollout", "", "", "deletion", None],
    "compare": lambda file: [file, "one", "rollout, attention", "", None],
    "figure": lambda file: [[file], "rollout", 89, ".pdf", "one", "", None],
    "figure7": lambda file: ["one", [file], ".pdf", 183],
    "replay": lambda file: [file, None],
}


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_the_server_and_no_address_is_read(
    page: Page, root: Path, file: Path, name: str
) -> None:
    url = page.demo.local_url
    if name != "replay":  # the values are right but for the place of the file
        assert end_of_call(url, name, FILES[name](upload(url, file))) == "complete"
    own = str(root / "app/examples/lion.jpg")
    for place in (
        {"path": own},
        {"path": "/etc/hostname"},
        {"path": f"{page.demo.GRADIO_CACHE}/../{own}"},
        {"path": "http://127.0.0.1:9/a.png"},
        {"path": "https://example.com/a.png"},
        {"path": None, "url": f"file://{own}"},
        {"path": None, "url": "https://example.com/a.png"},
    ):
        file = {**place, "meta": {"_type": "gradio.FileData"}}
        assert end_of_call(url, name, FILES[name](file)) == "error", place


def test_leaving_deletes_what_a_program_gave_and_got(page: Page, photo: Any) -> None:
    visitor = gradio_client.Client(page.demo.local_url, verbose=False, download_files=False)
    visitor.predict(photo, "one", "rollout", api_name="/recipe")
    folder = page.studio.desks.of(visitor.session_hash).folder
    assert [path for path in folder.rglob("*") if path.is_file()]
    visitor.close()
    end = time.monotonic() + 20
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not folder.exists()


def test_what_a_program_without_a_session_gave_is_deleted_too(
    page: Page, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_call, "KEPT", 1.0)
    url = page.demo.local_url
    known = {desk.owner for desk in page.studio.desks.all()}
    assert end_of_call(url, "explain", FILES["explain"](upload(url, file))) == "complete"
    mine = [desk for desk in page.studio.desks.all() if desk.owner not in known]
    end = time.monotonic() + 20
    while any(desk.folder.exists() for desk in mine) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(desk.folder.exists() for desk in mine)
    assert {desk.owner for desk in page.studio.desks.all()} <= known


# -- tools for assistants ------------------------------------------------------------------------


def _tell(page: Page, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """One message of the Model Context Protocol, and its answer."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    _, text = ask(f"{page.demo.local_url}gradio_api/mcp/", message)
    lines = [line for line in text.splitlines() if line.startswith("data: ")]
    told: dict[str, Any] = json.loads(lines[-1].removeprefix("data: ") if lines else text)
    result: dict[str, Any] = told["result"]
    return result


@pytest.mark.skipif(not _has_mcp(), reason="the package mcp is not installed")
def test_assistants_have_the_same_endpoints_as_tools(page: Page, file: Path) -> None:
    tools = {tool["name"]: tool for tool in _tell(page, "tools/list", {})["tools"]}
    public = [fn for fn in page.demo.fns.values() if fn.api_visibility == "public" and fn.fn]
    assert {*tools} == {fn.fn.__name__ for fn in public}
    for tool in tools.values():
        for name, schema in tool["inputSchema"]["properties"].items():
            assert schema.get("description"), (tool["name"], name)
    data = "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
    desks = len(page.studio.desks)
    asked: dict[str, Any] = {"photo": data, "model": "one"}
    found = _tell(page, "tools/call", {"name": "explain", "arguments": asked})
    assert not found.get("isError"), found
    text = " ".join(part.get("text", "") for part in found["content"])
    assert "probability" in text
    watched = {"name": "attention", "arguments": asked, "_meta": {"progressToken": 1}}
    seen = _tell(page, "tools/call", watched)  # without a token Gradio tells all as one text
    assert any(part["type"] == "image" for part in seen["content"])
    assert len(page.studio.desks) <= desks  # such a call has a desk of its own
    asked = {"photo": data, "model": "one", "methods": "nonsense"}
    found = _tell(page, "tools/call", {"name": "explain", "arguments": asked})
    assert found["isError"]
    assert "There is no method 'nonsense'" in str(found["content"])
    asked = {"photo": "/etc/hostname", "model": "one"}
    assert _tell(page, "tools/call", {"name": "explain", "arguments": asked})["isError"]
