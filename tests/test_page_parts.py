"""The page's own parts: store, workers, model pool, desks, gate, files, settings."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app import desks as desks_module
from app import files, options, settings
from app.desks import Desks
from app.gate import Gate
from app.loader import Given, Loader, is_path, resolve
from app.models import ModelPool
from app.scene import Scene, with_model
from app.store import Store
from app.texts import browser_texts
from app.work import Report, Workers
from explainers import Cancelled, ModelError, PhotoError, VisionModel, methods, wrap_model
from explainers.methods.parameters import check_parameters
from tests.tiny import tiny_vit


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


# -- store -------------------------------------------------------------------------------


def test_store_is_bounded_in_bytes_and_drops_the_longest_unused() -> None:
    store = Store(max_bytes=100)
    store.put("a", 1, "one", 40)
    store.put("a", 2, "two", 40)
    assert store.get("a", 1) == "one"  # now used later than 2
    store.put("b", 3, "three", 40)
    assert (store.get("a", 1), store.get("a", 2), store.get("b", 3)) == ("one", None, "three")
    assert store.bytes == 80
    store.put("b", 4, "too large", 101)
    assert store.get("b", 4) is None
    store.put("a", 1, "again", 10)
    assert store.bytes == 50


def test_store_forgets_with_time_and_with_the_visitor(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("app.store.time.monotonic", lambda: now[0])
    store = Store(max_bytes=100, keep_seconds=60)
    store.put("a", 1, "one", 10)
    store.put("b", 1, "other", 10)
    now[0] = 50
    assert store.get("a", 1) == "one"
    now[0] = 100
    assert store.get("b", 1) is None
    assert store.get("a", 1) == "one"
    store.drop("a")
    assert store.get("a", 1) is None
    assert store.bytes == 0


# -- workers -----------------------------------------------------------------------------


def test_job_reports_and_stops_at_its_next_model_call() -> None:
    workers, calls = Workers(1), []

    def work(report: Report) -> None:
        for step in range(1000):
            calls.append(step)
            report(step, 1000)
            time.sleep(0.005)

    job = workers.begin("key", work)
    wait_until(lambda: job.share > 0)
    job.stop()
    assert job.wait(1)
    with pytest.raises(Cancelled):
        job.result()
    assert len(calls) < 500


def test_stopped_job_that_still_waits_never_begins() -> None:
    workers, gate, ran = Workers(1), threading.Event(), []
    first = workers.begin(1, lambda report: gate.wait(60))
    second = workers.begin(2, lambda report: ran.append(1))
    assert not second.started.is_set()
    second.stop()
    gate.set()
    assert first.wait(30)
    assert second.wait(30)
    assert not ran


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


# -- desks and files -----------------------------------------------------------------------


def test_leaving_deletes_the_folder_and_all_that_is_remembered(tmp_path: Path) -> None:
    forgotten: list[str] = []
    numbers = iter(range(100))

    def folder() -> Path:
        place = tmp_path / str(next(numbers))
        place.mkdir()
        return place

    desks = Desks(folder, forgotten.append, limit=2)
    first = desks.of("first")
    (first.folder / "photo.png").write_bytes(b"x")
    assert desks.of("first") is first
    desks.of("second")
    desks.of("third")  # one too many: the longest unused goes
    assert not first.folder.exists()
    assert first.closed
    assert forgotten == ["first"]
    desks.leave("second")
    desks.leave("nobody")
    assert forgotten == ["first", "second"]
    assert len(desks) == 1
    assert desks_module.Desk("x", tmp_path).next_turn() == 1


def test_a_photo_leaves_the_uploads_and_examples_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SHARED", 0.2)
    uploads, folder, elsewhere = (tmp_path / name for name in ("up", "up/desk", "examples"))
    for place in (uploads, folder, elsewhere):
        place.mkdir()
    monkeypatch.setattr(files, "get_upload_folder", lambda: str(uploads))
    (uploads / "a.png").write_bytes(b"photo")
    (elsewhere / "b.png").write_bytes(b"photo")
    moved, copied = files.adopt(uploads / "a.png", folder), files.adopt(elsewhere / "b.png", folder)
    assert moved.read_bytes() == copied.read_bytes() == b"photo"
    assert moved.is_relative_to(folder)
    assert copied.is_relative_to(folder)
    assert files.adopt(moved, folder).read_bytes() == b"photo"
    wait_until(lambda: not (uploads / "a.png").exists())
    assert (elsewhere / "b.png").exists()
    with pytest.raises(PhotoError) as caught:
        files.adopt(uploads / "a.png", folder)
    assert caught.value.args[0].key == "upload_gone"


def test_two_visitors_may_give_the_same_file_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "get_upload_folder", lambda: str(tmp_path))
    shared = tmp_path / "hash" / "lion.jpg"
    shared.parent.mkdir()
    shared.write_bytes(b"photo")
    for visitor in ("one", "two"):
        assert files.adopt(shared, tmp_path / visitor).read_bytes() == b"photo"
    monkeypatch.setattr(files, "SHARED", 60.0)
    files.delete_upload(shared)  # it was uploaded again since: somebody is about to take it
    assert shared.exists()
    monkeypatch.setattr(files, "SHARED", 0.0)
    files.delete_upload(shared)
    files.delete_upload(shared)
    assert not shared.exists()


def test_pictures_are_written_without_loss_once(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    path = files.write_png(Image.fromarray(pixels), tmp_path, "map")
    assert np.array_equal(np.asarray(Image.open(path)), pixels)
    assert files.write_png(Image.fromarray(pixels), tmp_path, "map") == path
    assert files.browser_can_show(Path(path))
    Image.fromarray(pixels).save(tmp_path / "a.tiff")
    assert not files.browser_can_show(tmp_path / "a.tiff")
    (tmp_path / "b.png").write_text("no photo")
    assert not files.browser_can_show(tmp_path / "b.png")


# -- gate ----------------------------------------------------------------------------------


def through_gate(path: str, chunks: list[bytes], declared: int | None) -> tuple[int, int]:
    """The status, and how many bytes the application behind the gate received."""
    received, sent = [], []

    async def application(scope, receive, send):  # type: ignore[no-untyped-def]
        while True:
            message = await receive()
            received.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    messages = [
        {"type": "http.request", "body": chunk, "more_body": i + 1 < len(chunks)}
        for i, chunk in enumerate(chunks)
    ]

    async def receive():  # type: ignore[no-untyped-def]
        return messages.pop(0)

    async def send(message):  # type: ignore[no-untyped-def]
        sent.append(message)

    length = [] if declared is None else [(b"content-length", str(declared).encode())]
    scope = {"type": "http", "path": path, "headers": length}
    asyncio.run(Gate(application, max_body=10)(scope, receive, send))
    return sent[0]["status"], sum(map(len, received))


@pytest.mark.parametrize(
    ("path", "chunks", "declared", "status"),
    [
        ("/gradio_api/queue/join", [b"12345", b"12345"], 10, 200),
        ("/gradio_api/queue/join", [b"12345"], 11, 413),
        ("/gradio_api/queue/join", [b"12345", b"12345", b"1"], None, 413),
        ("/gradio_api/upload", [b"12345", b"12345", b"1"], 11, 200),
        ("/gradio_api/run/upload", [b"12345"], 11, 413),
        ("/gradio_api/call/upload", [b"12345", b"12345", b"1"], None, 413),
        ("/upload", [b"12345"], 11, 413),
        ("/gradio_api/upload/", [b"12345"], 11, 413),
        ("/gradio_api/file=http://example.com/a.png", [b""], 0, 403),
        ("/gradio_api/file=HTTPS://example.com/a.png", [b""], 0, 403),
        ("/gradio_api/proxy=https://example.com/", [b""], 0, 403),
        ("/gradio_api/file=/folder/http.png", [b""], 0, 200),
    ],
)
def test_gate(path: str, chunks: list[bytes], declared: int | None, status: int) -> None:
    found, received = through_gate(path, list(chunks), declared)
    assert found == status
    assert received <= 11


def test_a_request_that_gradio_breaks_at_gets_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def application(scope, receive, send):  # type: ignore[no-untyped-def]
        raise KeyError(99999)

    sent: list[Any] = []

    async def send(message):  # type: ignore[no-untyped-def]
        sent.append(message)

    scope = {"type": "http", "path": "/gradio_api/queue/join", "headers": []}
    asyncio.run(Gate(application)(scope, None, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 400
    assert "KeyError(99999)" in caplog.text


# -- the address ---------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["0", "65536", "99999999", "-1", "x", "7860.0", "²"])
def test_a_port_out_of_range_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert options.parse(["--port", "65535"]).port == 65535
    with pytest.raises(SystemExit):
        options.parse(["--port", port])
    assert f"a whole number from 1 to 65535, as 7860; got '{port}'" in capsys.readouterr().err


def test_an_address_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GRADIO_SERVER_NAME", "GRADIO_SERVER_PORT"):
        monkeypatch.delenv(variable, raising=False)
    assert options.address_problem(None, None) is None
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        told = f"Port {taken} is in use; choose another --port."
        assert options.address_problem(None, taken) == told
        assert options.address_problem("127.0.0.1", taken) == told
        monkeypatch.setenv("GRADIO_SERVER_PORT", str(taken))
        assert options.address_problem(None, None) == told
        monkeypatch.delenv("GRADIO_SERVER_PORT")
    for host in ("203.0.113.9", "no such host"):
        told = options.address_problem(host, None) or ""
        assert told.startswith(f"{host} is no address of this machine; choose another --host")


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
