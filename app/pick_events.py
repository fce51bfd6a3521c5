"""Events of maps that compare with one place of the photo: a click chooses the place."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import drawing
from app.errors import guard
from app.keys import trace_key
from app.scene import Scene, with_model
from app.settings import PICKED
from app.widgets import QUIET, Widgets
from explainers.trace import Trace


def connect(page: Widgets) -> None:
    """A click sets the control; the nudge then has the map made."""

    @guard
    def pick(
        lang: str,
        scene: Scene,
        model: str,
        nudge: int,
        event: gr.SelectData,
        request: gr.Request,
    ) -> tuple[Any, Any]:
        trace = None
        if scene.photo is not None:
            desk = page.desk(request)
            eye = with_model(scene, model).single
            key = trace_key(eye, page.studio.photo(desk, scene.photo))
            trace = page.studio.store.get(desk.owner, key)
        token = None if trace is None else token_at(trace, event.index)
        return (gr.skip(), gr.skip()) if token is None else (token, nudge + 1)

    for name, parameter in PICKED.items():
        card = page.tab.cards[name]
        inputs = [page.lang, page.scene, page.model, page.nudge]
        card.image.select(pick, inputs, [card.controls[parameter], page.nudge], **QUIET)


def token_at(trace: Trace, place: Any) -> int | None:
    """The token of the patch at [x, y] of the shown map; None where the model saw nothing."""
    geometry = trace.geometry
    scale = geometry.photo_size[1] / drawing.shown_width(geometry)
    x, y = ((int(number) + 0.5) * scale for number in place)
    cell = geometry.cell_at(x, y)
    return None if cell is None else trace.prefix + cell[0] * trace.grid[1] + cell[1]
