"""Events of the cost panel: sizes are worked out at once, times are measured when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr
import numpy as np

from app import anatomy_events, cards, cost_panel
from app.anatomy_tab import AnatomyTab
from app.cost_panel import CELLS, CostPanel
from app.desks import Desk
from app.errors import explain_error
from app.runs import Runs, shares
from app.scene import Scene, with_model
from app.studio import Studio
from app.texts import say
from app.widgets import QUIET, Widgets
from app.work import Report
from explainers import VisionModel
from explainers.methods.explain import Cancelled
from explainers.models.errors import ModelError
from explainers.views.cost import shape_of
from explainers.views.heads import head_figures
from explainers.views.timing import Timing, measure_passes


def connect(page: Widgets, tab: AnatomyTab, panel: CostPanel, drawn: Any) -> None:
    """Let sizes and model change the figures; measure and cancel.

    drawn: the event after which the photo has been traced, as `anatomy_events.connect` returns it.
    """
    studio = page.studio
    runs = Runs(studio.workers)

    def update(
        lang: str, model: str, height: Any, width: Any, patch: Any, before: str | None
    ) -> list[Any]:
        vit = studio.models.ready(model)
        skipped = [gr.skip()] * 8
        if vit is None:
            return skipped
        reset = before != model
        try:
            shape = shape_of(vit)
            if reset:
                (height, width), patch = vit.preprocessing.size, shape.patch
            return cost_panel.shown(lang, model, shape, height, width, patch, reset)
        except ValueError as error:
            reason = cards.line("vs-refused", explain_error(lang, error))
            return [*skipped[:4], reason, *skipped[5:]]

    def reach(lang: str, scene: Scene, model: str, request: gr.Request) -> list[Any]:
        vit = studio.models.ready(model)
        if vit is None:
            return [gr.skip()] * 2
        found = _distances(studio, page.desk(request), with_model(scene, model))
        return cost_panel.reach(lang, vit.adapter.depth, max(vit.preprocessing.size), found)

    def measure(lang: str, model: str, request: gr.Request) -> Iterator[list[Any]]:
        desk, vit = page.desk(request), studio.models.ready(model)
        if vit is None:
            return
        sides = [cells * shape_of(vit).patch for cells in CELLS]
        buttons = [gr.update(visible=False), gr.update(visible=True)]
        back = [gr.update(visible=True), gr.update(visible=False)]
        try:
            with runs.begin(desk, ("timing", model), partial(_timings, vit, sides)) as job:
                for share in shares(job, desk):
                    text = cards.line("vs-state", say(lang, "cost_measuring"))
                    yield [text + cards.bar(share), gr.skip(), *buttons]
                if desk.closed:
                    return
                yield [*cost_panel.measured(lang, shape_of(vit), job.result()), *back]
        except Cancelled:
            yield [cards.line("vs-state", say(lang, "cost_stopped")), gr.skip(), *back]
        except Exception as error:
            yield [cards.line("vs-refused", explain_error(lang, error)), gr.skip(), *back]

    def cancel(request: gr.Request) -> None:
        runs.stop(page.desk(request))

    def forget() -> list[Any]:
        return ["", gr.update(visible=False)]

    common: dict[str, Any] = {"concurrency_limit": 8, "trigger_mode": "always_last", **QUIET}
    inputs = [page.lang, page.model, *panel.sizes, panel.shape_of]
    gr.on([size.input for size in panel.sizes], update, inputs, panel.outputs, **common)
    tab.watch.renew(update, inputs, panel.outputs, **common)
    drawn.then(
        reach,
        [page.lang, page.scene, page.model],
        [panel.reach, panel.reach_text],
        **{**common, "trigger_mode": "multiple"},
    )
    times = [panel.progress, panel.times]
    panel.measure.click(
        measure,
        [page.lang, page.model],
        [*times, panel.measure, panel.cancel],
        concurrency_limit=8,
        **QUIET,
    )
    panel.cancel.click(cancel, None, None, queue=False, **QUIET)
    page.model.change(forget, None, times, queue=False, **QUIET)


def _timings(vit: VisionModel, sides: list[int], report: Report) -> list[Timing]:
    return measure_passes(vit, sides, report)


def _distances(studio: Studio, desk: Desk, scene: Scene) -> np.ndarray | None:
    """Mean attention distance (blocks, heads) on the scene's photo, where it has been traced."""
    anatomy = anatomy_events.known(studio, desk, scene)
    if anatomy is None:
        return None
    try:
        return head_figures(anatomy.trace).distance
    except ModelError:
        return None
