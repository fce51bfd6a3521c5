"""Events of the Attention tab: the board asks for what it shows whenever it is seen."""

from __future__ import annotations

import functools
import itertools
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from app import attention_run, attention_tab, handlers
from app.attention_answers import Looks, wish
from app.attention_data import Look, look
from app.attention_tab import AttentionTab
from app.desks import Desk
from app.errors import explain_error, guard
from app.making import TICK
from app.save_events import HAND_OVER
from app.scene import Scene, with_model
from app.studio import Studio
from app.widgets import AT_ONCE, QUIET, Widgets
from app.work import Job, Report
from explainers import Photo, VisionModel
from explainers.sentence import Sentence
from explainers.trace import Trace


def connect(page: Widgets, tab: AttentionTab, looks: Looks) -> None:
    """Let photo, model and language make the board stale, and the board ask for a new state.

    The board asks at once while it is seen and else when its tab is opened: nothing is worked
    out for a tab that nobody looks at.
    """
    counter = itertools.count()

    def outdate() -> dict[str, Any]:
        return attention_tab.stale(next(counter))

    def show(lang: str, scene: Scene, model: str, request: gr.Request) -> Iterator[list[Any]]:
        desk = page.desk(request)
        turn = looks.next_turn(desk.owner)
        try:
            for step in making(looks, desk, with_model(scene, model)):
                if looks.turn(desk.owner) != turn or desk.closed:
                    return
                if step is None:
                    yield attention_tab.empty(lang)
                elif isinstance(step, Look):
                    wanted, desk.board = desk.board, None
                    yield attention_tab.ready(lang, step, wanted)
                else:
                    yield attention_tab.waiting(lang)
        except Exception as error:
            yield attention_tab.refused(explain_error(lang, error))

    @guard
    def film(lang: str, event: gr.EventData, request: gr.Request) -> str:
        """A GIF, WebP or MP4 of the run that the board asks for, to be downloaded."""
        path = filmed(looks, page.desk(request), dict(event._data))
        if path is None:
            raise ValueError(
                Sentence(
                    "film_gone",
                    "These maps are no longer kept here; point at the photo, and save them again.",
                )
            )
        return str(path)

    gr.on(
        [page.scene.change, page.model.change, page.lang.change],
        outdate,
        None,
        tab.board,
        queue=False,
        **QUIET,
    )
    saved = tab.board.film(film, page.lang, page.file, concurrency_limit=2, **QUIET)
    saved.success(None, page.file, None, js=HAND_OVER, api_visibility="private")
    tab.board.renew(show, [page.lang, page.scene, page.model], tab.outputs(), **AT_ONCE)


def filmed(looks: Looks, desk: Desk, asked: dict[str, Any]) -> Path | None:
    """The moving picture's file in the visitor's folder; None where its maps are not there.

    Anybody may have sent what is asked for. ValueError for another kind of file.
    """
    found = looks.find(asked.get("key"))
    wanted = None if found is None else wish(found, asked)
    if found is None or wanted is None:
        return None
    contents = attention_run.film(found, *wanted, asked.get("kind"))
    place = desk.folder / secrets.token_urlsafe(8)
    place.mkdir()
    stem = Path(found.trace.photo.name).stem or "photo"
    path = place / f"{stem}-attention.{asked['kind']}"
    path.write_bytes(contents)
    return path


def making(looks: Looks, desk: Desk, scene: Scene) -> Iterator[Job | Look | None]:
    """The job at work every tick, and at last the scene's look; None without a photo.

    Raises PhotoError or ModelError where there is nothing to look at.
    """
    studio = looks.studio
    if scene.photo is None:
        yield None
        return
    photo = studio.photo(desk, scene.photo)
    name = ("attention", scene.single, photo.sha256)
    known = looks.known(desk.owner, name)
    if known is not None:
        yield known
        return
    for step in handlers.wait_for_model(studio, desk, scene.model):
        if isinstance(step, Job):
            yield step
            continue
        other = desk.job  # the maps of Explain may be about to make the same trace
        while other is not None and other.key == _trace_key(scene.single, photo):
            if other.wait(TICK):
                break
            yield other
        eye = studio.seeing(desk, step, scene, photo)
        work = functools.partial(_look, studio, desk, eye, scene.single, photo)
        job = studio.workers.begin(name, work)
        try:
            while not job.wait(TICK):
                yield job
        finally:
            job.stop()
        found: Look = job.result()
        if not desk.closed:
            looks.put(desk.owner, name, found)
        yield found


def _look(
    studio: Studio, desk: Desk, vit: VisionModel, model: str, photo: Photo, report: Report
) -> Look:
    key = _trace_key(model, photo)
    trace: Trace | None = studio.store.get(desk.owner, key)
    report(0, 1)
    return look(vit.trace(photo) if trace is None else trace)


def _trace_key(model: str, photo: Photo) -> tuple[str, str, str]:
    """As `Studio.trace` remembers it."""
    return "trace", model, photo.sha256
