"""All events of the page."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import (
    choose_events,
    explain_events,
    glance_events,
    inside_events,
    look_events,
    model_events,
    pick_events,
    save_events,
    trust_events,
)
from app.texts import say
from app.widgets import QUIET, Widgets


def connect(page: Widgets, demo: gr.Blocks, places: dict[str, gr.Tab]) -> None:
    """Attach everything; ``places``: the tabs by name.

    The browser starts an event's next handler when the one before has ended, in the order in
    which they are attached: what is done at once stands before the maps and their measures.
    """
    _name_tabs(page, places)
    choose_events.connect(page)
    inside_events.connect(page, places["inside"])
    explain_events.connect(page)
    trust_events.connect(page)
    pick_events.connect(page)
    glance_events.connect(page)
    model_events.connect(page, demo)
    look_events.connect(page)
    save_events.connect(page)

    def leave(request: gr.Request) -> None:
        session = request.session_hash or ""
        page.studio.desks.leave(session)
        # Gradio would keep what it knows of the visitor's widgets, some 5 MB, for good.
        demo.state_holder.session_data.pop(session, None)
        demo.state_holder.time_last_used.pop(session, None)

    demo.unload(leave)


def _name_tabs(page: Widgets, places: dict[str, gr.Tab]) -> None:
    """The names of tabs not yet opened do not follow the language by themselves."""

    def rename(lang: str) -> list[Any]:
        return [gr.update(label=say(lang, f"tab_{name}")) for name in places]

    page.lang.change(rename, page.lang, list(places.values()), **QUIET)
