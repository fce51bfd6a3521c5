"""Events of the Explain tab: whatever decides what it shows leads to one handler."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import gradio as gr

from app.desks import Desk
from app.errors import guard
from app.explaining import explaining
from app.gathering import Updates, gathered
from app.glance import glancing
from app.measuring import measuring
from app.scene import Request
from app.showing import Showing
from app.widgets import AT_ONCE, QUIET, Widgets

SETTLE = 0.15
"""Seconds a moving slider is given before the maps follow it."""


def connect(page: Widgets) -> None:
    """Make the maps follow photo, model, class, methods, settings, display and language."""
    tab = page.tab

    def answers(showing: Showing, desk: Desk, asked: Request, turn: int) -> Iterator[Updates]:
        """What the page shall show, from the cards without maps to the last measure."""
        yield showing.begin()
        try:
            for event in explaining(page.studio, desk, asked, turn):
                yield showing.updates(event)
            single = asked.scene.look.kind != "windows"  # the rest speaks of one look
            if single and showing.complete and showing.answered is not None:
                given = (page.studio, desk, asked, showing.answered)
                for later in chain(measuring(*given, showing.heats), glancing(*given)):
                    yield showing.updates(later)
        except Exception as error:
            yield showing.failed(error)

    @guard
    def run(lang: str, request: gr.Request, *values: Any) -> Iterator[Updates]:
        desk, asked = page.desk(request), page.request(values)
        turn = desk.ask((lang, asked))
        if turn is None:
            return
        showing = Showing(lang, asked, page.studio, desk, page.chooser, tab, page.ranks)
        stream = answers(showing, desk, asked, turn)
        for updates in gathered(stream, lambda: desk.asked_turn == turn):
            yield updates
            showing.told()
        # Gradio tells the last answer again at the end, when a newer request may have its own.
        yield {tab.hint: gr.skip()}

    changed: list[Any] = [
        page.scene.change,
        page.model.change,
        page.nudge.change,
        tab.go.click,
        page.lang.change,
    ]
    changed += [group.input for group in tab.groups.values()]
    for widget in (*tab.display, *tab.controls.values()):
        if isinstance(widget, gr.Slider):
            widget.input(_settle, page.nudge, page.nudge, trigger_mode="always_last", **QUIET)
        else:
            changed.append(widget.input)
    gr.on(changed, run, page.asked, page.shown, **AT_ONCE)

    def cancel(request: gr.Request) -> None:
        page.desk(request).stop()

    tab.cancel.click(cancel, None, None, queue=False, **QUIET)


def _settle(count: int) -> int:
    """A slider is moving: wait a moment, so that its last place is drawn rather than all."""
    time.sleep(SETTLE)
    return count + 1
