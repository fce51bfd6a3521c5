"""The page's models: loaded once, shared, let go; and settings that are fitted to them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from app import settings
from app.loader import Given, Loader, is_path, resolve
from app.models import ModelPool
from app.scene import Scene, with_model
from app.texts import browser_texts
from app.work import Report
from explainers import Cancelled, ModelError, VisionModel, methods, wrap_model
from explainers.methods.parameters import check_parameters
from tests.tiny import tiny_vit
from tests.waiting import wait_until

# -- models ------------------------------------------------------------------------------


def tiny_model() -> VisionModel:
    return wrap_model(tiny_vit())


def test_a_slow_load_blocks_nobody_else_and_is_shared() -> None:
    gate, loads = threading.Event(), []

    def load(name: str, report: Report, download: bool) -> VisionModel:
        loads.append(name)
        if name == "slow":
            gate.wait(60)
        return tiny_model()

    pool = ModelPool(load)
    slow, again = pool.begin("slow"), pool.begin("slow")
    assert slow is again
    quick = pool.begin("quick")
    assert quick.wait(30)
    assert pool.ready("quick") is quick.result()
    assert pool.ready("slow") is None
    pool.leave(again)  # one of two goes: it is loaded for the other
    gate.set()
    assert slow.wait(30)
    assert pool.ready("slow") is slow.result()
    assert sorted(loads) == ["quick", "slow"]  # each once; threads begin in any order


def test_pool_keeps_a_few_models_and_the_pinned_ones() -> None:
    pool = ModelPool(lambda name, report, download: tiny_model(), limit=2)
    pool.add("pinned", tiny_model())
    for name in "abc":
        assert pool.begin(name).wait(30)
        wait_until(lambda name=name: pool.ready(name) is not None)
    assert pool.names() == ["pinned", "b", "c"]


def test_failed_load_is_told_and_can_be_tried_again() -> None:
    outcomes = [ModelError("not now"), None]

    def load(name: str, report: Report, download: bool) -> VisionModel:
        error = outcomes.pop(0)
        if error:
            raise error
        return tiny_model()

    pool = ModelPool(load)
    job = pool.begin("x")
    assert job.wait(30)
    with pytest.raises(ModelError, match="not now"):
        job.result()
    wait_until(lambda: pool.begin("x") is not job)
    wait_until(lambda: pool.ready("x") is not None)


def test_the_last_one_to_leave_stops_a_download() -> None:
    def load(name: str, report: Report, download: bool) -> VisionModel:
        for step in range(1000):
            report(step, 1000)
            time.sleep(0.005)
        return tiny_model()

    pool = ModelPool(load)
    job = pool.begin("x", download=True)
    pool.begin("x", download=True)
    pool.leave(job)
    assert not job.stopped
    pool.leave(job)
    assert job.wait(1)
    with pytest.raises(Cancelled):
        job.result()


def test_visitors_name_models_but_no_files(tmp_path: Path) -> None:
    loader = Loader(resolve("embedded"))
    for name in ("weights.safetensors", "../x/model.pth", "C:\\models\\a.bin", str(tmp_path)):
        assert is_path(name)
        with pytest.raises(ModelError, match="--model FILE"):
            loader(name, lambda done, total: None, False)
    assert not is_path("hf-hub:owner/model")


def test_command_line_model_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    missing = tmp_path / "no.safetensors"
    assert "no.safetensors" in (resolve(str(missing)).problem() or "")
    assert resolve("embedded").problem() is None
    assert Given("a", "a", labels=str(tmp_path / "labels.txt")).problem()
    assert resolve("auto").name == "embedded"  # nothing is cached in the tests


# -- settings, scene -------------------------------------------------------------------------


def test_untouched_controls_ask_for_the_declared_defaults() -> None:
    t, table = browser_texts(methods()), methods()
    depth, heads, tokens = 12, 6, 197
    values = []
    for name, parameter_name in settings.places(table):
        parameter = next(p for p in table[name].parameters if p.name == parameter_name)
        values.append(settings.control(t, table[name], parameter).value)
    read = settings.read(table, values)
    for name, method in table.items():
        asked = check_parameters(method, read.get(name, {}), depth, heads, tokens)
        assert asked == check_parameters(method, {}, depth, heads, tokens)


def test_controls_are_fitted_to_the_model() -> None:
    t, table, vit = browser_texts(methods()), methods(), wrap_model(tiny_vit())
    updates = dict(zip(settings.places(table), settings.refresh(t, table, vit), strict=True))
    assert updates["attention", "block"]["maximum"] == 2
    assert updates["attention", "block"]["value"] == 2
    assert [choice for _, choice in updates["attention", "head"]["choices"]][-2:] == ["0", "1"]
    values = [update["value"] for update in updates.values()]
    assert settings.read(table, values)["attention"]["block"] == 2


def test_empty_and_typed_controls_become_values_of_the_right_kind() -> None:
    table = methods()
    places = settings.places(table)
    values: dict[tuple[str, str], object] = dict.fromkeys(places, None)
    values["attention", "head"] = "3"
    values["attention", "row"] = 5.0
    values["rollout", "discard"] = 0
    read = settings.read(table, [values[place] for place in places])
    assert read["attention"] == {"block": -1, "head": 3, "row": 5}
    assert read["rollout"]["discard"] == 0.0
    assert isinstance(read["rollout"]["discard"], float)


def test_another_model_lets_go_of_the_classes() -> None:
    scene = Scene(photo="a", model="one", target=3, against=4)
    assert with_model(scene, "one") is scene
    assert with_model(scene, "two") == Scene(photo="a", model="two")
