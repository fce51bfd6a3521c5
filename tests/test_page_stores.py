"""What the page keeps: results in its store, work under way, visitors' desks and files."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app import desks as desks_module
from app import files
from app.desks import Desks
from app.store import Store
from app.work import Report, Workers
from explainers import Cancelled, PhotoError
from tests.waiting import wait_until

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
