"""The page's widgets that events connect, and how their values become one request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from app import settings
from app.choose import Chooser
from app.desks import Desk
from app.explain_tab import ExplainTab
from app.inside_tab import InsideTab
from app.scene import Display, Request, Scene, with_model
from app.studio import Studio
from explainers import methods

QUIET: dict[str, Any] = {
    "show_progress": "hidden",
    "show_progress_on": [],  # else the browser is told of each answer once for every output
    "api_visibility": "private",
}
"""Events inside the page: their progress is painted by the page itself."""

AT_ONCE: dict[str, Any] = {"concurrency_limit": 32, "trigger_mode": "multiple", **QUIET}
"""Events that wait for models: they hold no thread of their own, so many may wait at once."""


@dataclass
class Widgets:
    """The parts of one page. ``lang`` is the first input of every event that may fail.

    scene: what the visitor looks at, with ``model`` (a name) being the model in use: it changes
    by itself, when one is loaded, while the visitor may be choosing photos. ranks: the classes
    in the list of the likeliest ones. nudge: counts the pauses in moving a slider.
    """

    studio: Studio
    t: gr.I18n
    lang: gr.Dropdown
    chooser: Chooser
    tab: ExplainTab
    inside: InsideTab
    file: gr.DownloadButton
    scene: gr.State = field(init=False)
    model: gr.State = field(init=False)
    ranks: gr.State = field(init=False)
    nudge: gr.State = field(init=False)

    def __post_init__(self) -> None:
        self.scene = gr.State(Scene(model=self.studio.default_model))
        self.model = gr.State(self.studio.default_model)
        self.ranks = gr.State([])
        self.nudge = gr.State(0)

    @property
    def asked(self) -> list[Any]:
        """The inputs that make a request: the language, then what `request` takes."""
        tab = self.tab
        drawn = [*tab.display, *tab.controls.values()]
        return [self.lang, self.scene, self.model, *tab.groups.values(), *drawn]

    @property
    def shown(self) -> list[Any]:
        """Everything that the answer to a request may change."""
        chooser, tab = self.chooser, self.tab
        widgets: list[Any] = [
            *(chooser.photo_note, chooser.class_note),
            *(chooser.top, chooser.target, chooser.against, self.ranks),
            *(tab.status, tab.hint, tab.shape, tab.cancel, tab.save_all, tab.save_recipe),
            *(tab.glance, tab.glance_strip, *tab.groups.values()),
        ]
        for card in tab.cards.values():
            widgets += [card.box, card.image, card.text, card.save]
            widgets += [card.measure, card.test, card.curve, card.checks, card.check]
            widgets += [card.baseline, card.baseline_box] if card.baseline else []
        return widgets

    def request(self, values: tuple[Any, ...]) -> Request:
        """The values of ``asked`` after the language as one request."""
        table = methods()
        scene, model, *rest = values
        ticked = {name for _ in self.tab.groups for name in rest.pop(0) or []}
        drawn = Display(*(rest.pop(0) for _ in self.tab.display))
        return Request(
            scene=with_model(scene, model),
            methods=tuple(name for name in table if name in ticked),
            parameters=settings.read(table, rest),
            display=drawn,
        )

    def desk(self, request: gr.Request) -> Desk:
        """The desk of the visitor who sent a request."""
        return self.studio.desks.of(request.session_hash or "")
