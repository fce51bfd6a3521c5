"""Events of "Inside the model": its views are made when the tab is opened, figure 7 when asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from app import figure7_events, handlers, inside_tab
from app.desks import Desk
from app.errors import guard
from app.widgets import Widgets
from app.work import Job


def connect(page: Widgets, place: gr.Tab) -> None:
    """Show the model's views when the tab ``place`` is opened, and components as asked."""
    inside, studio = page.inside, page.studio

    def show(lang: str, desk: Desk, model: str, count: int) -> Iterator[list[Any]]:
        if desk.inside_of == (model, lang):
            return
        desk.inside_of = (model, lang)
        try:
            for step in handlers.wait_for_model(studio, desk, model):
                if isinstance(step, Job):
                    yield inside_tab.loading(lang)
                else:
                    yield inside_tab.show(lang, step, count)
        except Exception:
            desk.inside_of = ("", "")
            raise

    @guard
    def opened(lang: str, request: gr.Request, model: str, count: int) -> Iterator[list[Any]]:
        yield from show(lang, page.desk(request), model, count)

    @guard
    def changed(lang: str, request: gr.Request, model: str, count: int) -> Iterator[list[Any]]:
        desk = page.desk(request)
        if desk.inside_of is not None:  # the tab has been opened before
            yield from show(lang, desk, model, count)

    @guard
    def recount(lang: str, model: str, count: int) -> Any:
        vit = studio.models.ready(model)
        return [gr.skip()] * 2 if vit is None else inside_tab.components(lang, vit, count)

    common: dict[str, Any] = {"show_progress": "minimal", "concurrency_limit": 8}
    common["api_visibility"] = "private"
    inputs = [page.lang, page.model, inside.count]
    place.select(opened, inputs, inside.outputs(), **common)
    gr.on([page.model.change, page.lang.change], changed, inputs, inside.outputs(), **common)
    inside.count.input(
        recount,
        inputs,
        [inside.components, inside.components_text],
        trigger_mode="always_last",
        **common,
    )
    figure7_events.connect(page, inside.figure)
