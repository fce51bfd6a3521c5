"""Events of the Anatomy tab: steps are drawn when they are seen, and follow what is chosen."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from typing import Any

import gradio as gr

from app import anatomy_shown, anatomy_tab, handlers
from app.anatomy_tab import AnatomyTab
from app.desks import Desk
from app.errors import explain_error
from app.keys import trace_bytes, trace_key
from app.making import TICK
from app.scene import Scene, with_model
from app.studio import Studio
from app.texts import say
from app.widgets import QUIET, Widgets
from app.work import Job, Report
from explainers import Photo, PhotoError, VisionModel
from explainers.views.anatomy import Anatomy
from explainers.views.steps import STEPS

WORKING = 3
"""Ticks after which the tab says that it is at work; most steps are there before."""

_MOVE = """(step) => {
  const steps = STEPS;
  return steps[Math.min(steps.length - 1, Math.max(0, steps.indexOf(step) + BY))];
}"""


def connect(page: Widgets, tab: AnatomyTab) -> Any:
    """Let photo, model and language make the tab stale, and every choice draw its step anew.

    Returns the event that draws what has become stale, for all that is to come after it.
    """

    def drawn(
        lang: str,
        scene: Scene,
        model: str,
        step: str,
        row: Any,
        column: Any,
        block: Any,
        head: Any,
        asks: Any,
        request: gr.Request,
    ) -> Iterator[list[Any]]:
        desk, now = page.desk(request), with_model(scene, model)
        chosen = (row, column, block, head, asks)
        try:
            yield from drawing(page.studio, desk, lang, now, step, chosen)
        except Exception as error:
            yield anatomy_tab.message("refused", explain_error(lang, error))

    def picked(
        scene: Scene, model: str, step: str, event: gr.SelectData, request: gr.Request
    ) -> tuple[Any, Any]:
        found = known(page.studio, page.desk(request), with_model(scene, model))
        if (
            found is None
            or step == anatomy_tab.menu_value("photo")
            or not isinstance(event.index, (list, tuple))
        ):
            return gr.skip(), gr.skip()
        return anatomy_shown.patch_at(found, *event.index)

    inputs = [page.lang, page.scene, page.model, *tab.chosen]
    common: dict[str, Any] = {"concurrency_limit": 8, "trigger_mode": "always_last", **QUIET}
    gr.on(
        [page.scene.change, page.model.change, page.lang.change],
        None,
        None,
        None,
        js="() => window.vitscopeAnatomy?.()",
        queue=False,
        **QUIET,
    )
    gr.on(
        [
            *(tab.steps.change, tab.row.input, tab.column.input),
            *(tab.asks.input, tab.block.input, tab.head.input),
        ],
        drawn,
        inputs,
        tab.outputs,
        **common,
    )
    renewed = tab.watch.renew(drawn, inputs, tab.outputs, **common)
    tab.picture.select(
        picked,
        [page.scene, page.model, tab.steps],
        [tab.row, tab.column],
        queue=False,
        **QUIET,
    ).then(drawn, inputs, tab.outputs, **{**common, "trigger_mode": "multiple"})
    for button, by in ((tab.back, "-1"), (tab.forward, "1")):
        values = [anatomy_tab.menu_value(step) for step in STEPS]
        move = _MOVE.replace("STEPS", json.dumps(values)).replace("BY", by)
        button.click(None, tab.steps, tab.steps, js=move, queue=False, **QUIET)
    return renewed


def drawing(
    studio: Studio, desk: Desk, lang: str, scene: Scene, step: str, chosen: tuple[Any, ...]
) -> Iterator[list[Any]]:
    """Updates for the tab's widgets: at work if it takes a while, and at last the step.

    Raises PhotoError or ModelError where there is nothing to look at.
    """
    if scene.photo is None:
        yield anatomy_tab.message("empty", say(lang, "anatomy_empty"))
        return
    photo = studio.photo(desk, scene.photo)
    for found in handlers.wait_for_model(studio, desk, scene.model):
        if isinstance(found, Job):
            yield anatomy_tab.message("loading", say(lang, "anatomy_working"))
            continue
        eye = studio.seeing(desk, found, scene, photo)
        work = functools.partial(_draw, studio, desk, eye, scene.single, photo, lang, step, chosen)
        job = studio.workers.begin(("anatomy", step), work)
        for tick in itertools.count():
            if job.wait(TICK):
                break
            if tick == WORKING:
                yield anatomy_tab.message("loading", say(lang, "anatomy_working"))
        yield job.result()


def known(studio: Studio, desk: Desk, scene: Scene) -> Anatomy | None:
    """The anatomy of the scene's photo and model, if it is remembered."""
    if scene.photo is None:
        return None
    try:
        photo = studio.photo(desk, scene.photo)
    except PhotoError:  # it has been deleted, and all that was made of it
        return None
    found: Anatomy | None = studio.store.get(desk.owner, _key(scene.single, photo))
    return found


def _draw(
    studio: Studio,
    desk: Desk,
    vit: VisionModel,
    model: str,
    photo: Photo,
    lang: str,
    step: str,
    chosen: tuple[Any, ...],
    report: Report,
) -> list[Any]:
    report(0, 1)
    anatomy: Anatomy | None = studio.store.get(desk.owner, _key(model, photo))
    if anatomy is None:
        trace = studio.store.get(desk.owner, trace_key(model, photo))
        anatomy = Anatomy(vit.trace(photo) if trace is None else trace)
        if not desk.closed:
            size = 4 * trace_bytes(anatomy.trace)
            studio.store.put(desk.owner, _key(model, photo), anatomy, size)
    return anatomy_shown.ready(lang, anatomy, step, chosen)


def _key(model: str, photo: Photo) -> tuple[str, str, str]:
    return "anatomy", model, photo.sha256
