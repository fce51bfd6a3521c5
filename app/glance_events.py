"""Events of the small pictures: a click ticks the method, or takes the tick away."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.widgets import QUIET, Widgets
from explainers import methods


def connect(page: Widgets) -> None:
    """The click changes the chooser; the nudge then has the maps follow."""
    groups = page.tab.groups

    def pick(event: gr.EventData, nudge: int, *ticked: Any) -> list[Any]:
        name = event._data.get("name")
        values = [
            toggled(question, list(names or []), name)
            for question, names in zip(groups, ticked, strict=True)
        ]
        return [nudge + 1, *values]

    widgets = [page.nudge, *groups.values()]
    page.tab.glance_strip.pick(pick, widgets, widgets, **QUIET)


def toggled(question: str, ticked: list[str], name: object) -> list[str]:
    """A question's ticked methods after a click on ``name``, in the chooser's order."""
    method = methods().get(str(name))
    if method is None or method.question != question:
        return ticked
    chosen = {*ticked} ^ {method.name}
    return [other for other in methods() if other in chosen]
