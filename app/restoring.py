"""Showing a view again that a link or a file told: every value fitted to what is there now."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from html import escape
from typing import Any

import gradio as gr

from app import (
    compare_links,
    example_photos,
    handlers,
    link_reading,
    link_values,
    model_events,
    settings,
)
from app.anatomy_tab import AnatomyTab, menu_value
from app.compare_tab import CompareTab
from app.desks import Desk
from app.errors import explain_error
from app.gathering import Updates
from app.link_fit import Fitted, fit
from app.link_panel import LinkPanel
from app.links import View
from app.scene import Display, Scene, with_model
from app.texts import say, tell
from app.widgets import Widgets
from app.work import Job
from explainers import ModelError, VisionModel, methods
from explainers.look import Look
from explainers.sentence import Sentence

MOST = 6
"""Sentences about what is wrong that are told one by one."""


@dataclass(frozen=True)
class Restorer:
    """The widgets that a view is shown in."""

    page: Widgets
    panel: LinkPanel
    tabs: gr.Tabs
    anatomy: AnatomyTab
    compare: CompareTab

    @property
    def outputs(self) -> list[Any]:
        """What is changed on the page."""
        page, above = self.page, self.page.chooser
        return [
            *(self.panel.note, self.tabs, self.anatomy.steps),
            *(above.photo, above.look.kind, above.look.side, *model_events.touched(page)),
            *(*page.tab.groups.values(), *page.tab.display),
            *compare_links.fields(self.compare).values(),
            *(getattr(self.anatomy, name) for name in link_values.PLACE),
        ]

    def restoring(
        self,
        lang: str,
        desk: Desk,
        raw: link_reading.Raw,
        problems: list[Sentence],
        scene: Scene,
        model: str,
    ) -> Iterator[Updates]:
        """The tab at once, all else when the model is there; the maps follow last of all."""
        view, refused = link_reading.read(raw)
        notes = told(lang, [*problems, *refused])
        yield {
            self.panel.note: lines(notes),
            self.tabs: gr.skip() if view.tab is None else gr.Tabs(selected=view.tab),
            self.anatomy.steps: gr.skip() if view.step is None else menu_value(view.step),
            self.page.chooser.model: view.model or gr.skip(),
            **compare_links.updates(self.compare, view.compare),
        }
        vit: VisionModel | None = None
        wanted = view.model or model
        try:
            vit = yield from self._there(lang, desk, wanted)
        except ModelError as error:
            notes.append(explain_error(lang, error))
            if view.target is not None:
                notes.append(say(lang, "link_other_model", name=wanted))
            try:
                vit = yield from self._there(lang, desk, model)
            except ModelError:
                yield model_events.not_had(self.page, lang, model, wanted, error)
                yield {self.panel.note: lines(notes)}
            if vit is not None:
                yield model_events.not_had(self.page, lang, model, wanted, error)
            view, wanted = replace(view, target=None, against=None), model
        else:
            if vit is not None:
                yield model_events.in_use(self.page, lang, wanted, vit)
        if vit is None:
            return  # there is none, or the visitor has turned to another one meanwhile
        fitted, more = fit(view, vit)
        notes += told(lang, more)
        now = self._scene(lang, desk, vit, with_model(scene, wanted), view, fitted, notes)
        desk.ready_model, desk.restored = wanted, now
        desk.board = dict(fitted.board) or None
        yield {
            self.panel.note: lines(notes),
            **model_events.fit_settings(self.page, desk, wanted, vit),
            **ticked(self.page, view, vit, fitted),
            **standing(self.anatomy, vit, fitted.place),
            self.page.chooser.photo: now.photo,
            self.page.chooser.look.kind: now.look.kind,
            self.page.chooser.look.side: side(now.look),
        }

    def _there(
        self, lang: str, desk: Desk, name: str
    ) -> Generator[Updates, None, VisionModel | None]:
        """The model, once it is loaded; None where the visitor has chosen another meanwhile."""
        desk.model_turn += 1  # what was loading for this visitor is not wanted any more
        desk.wanted_model, desk.followed = name, True
        try:
            for step in handlers.wait_for_model(self.page.studio, desk, name):
                if desk.wanted_model != name:
                    return None
                if not isinstance(step, Job):
                    return step
                yield model_events.loading(self.page, lang, name, step)
        except ModelError:
            desk.wanted_model = None
            raise
        return None

    def _scene(
        self,
        lang: str,
        desk: Desk,
        vit: VisionModel,
        scene: Scene,
        view: View,
        fitted: Fitted,
        notes: list[str],
    ) -> Scene:
        """The scene with the view's photo, class and size of look; notes: what cannot be."""
        if view.photo is not None:
            path = example_photos.names()[view.photo]
            scene = handlers.choose_photo(self.page.studio, desk, scene, path) or scene
        if scene.photo is not None:
            scene = replace(scene, target=fitted.target, against=fitted.against)
        elif fitted.target is not None or fitted.against is not None:
            notes.append(say(lang, "link_class_left"))
        if view.look is None:
            return scene
        looking = replace(scene, look=view.look)
        try:
            if scene.photo is not None and view.look.kind != "own":
                photo = self.page.studio.photo(desk, scene.photo)
                self.page.studio.forecast(vit, photo, looking)
        except ValueError as error:  # it cannot be taken: too large, say
            notes.append(explain_error(lang, error))
            return scene
        return looking


def ticked(page: Widgets, view: View, vit: VisionModel, fitted: Fitted) -> Updates:
    """The methods, their settings and the display options of a view; none where it names none."""
    tab, table, updates = page.tab, methods(), dict[Any, Any]()
    if view.methods is not None:
        for question, group in tab.groups.items():
            chosen = [name for name in view.methods if table[name].question == question]
            updates[group] = gr.update(value=chosen)
        usual = settings.refresh(page.t, table, vit)
        updates |= dict(zip(tab.controls.values(), usual, strict=True))
    for name, given in fitted.parameters.items():
        for setting, value in given.items():
            control = tab.controls[name, setting]
            shown = str(value) if isinstance(control, gr.Dropdown) else value
            updates[control] = {**updates.get(control, gr.update()), "value": shown}
    names = [field.name for field in fields(Display)]
    for name, widget in zip(names, tab.display, strict=True):
        if name in view.display:
            updates[widget] = gr.update(value=view.display[name])
    return updates


def standing(anatomy: AnatomyTab, vit: VisionModel, place: Mapping[str, Any]) -> Updates:
    """Where the Anatomy tab stands; its sliders reach no further than the model before."""
    last = {"block": vit.adapter.depth - 1, "head": vit.adapter.heads - 1}
    updates: Updates = {}
    for name, value in place.items():
        ends = {"maximum": max(1, last[name])} if name in last else {}
        updates[getattr(anatomy, name)] = gr.update(value=value, **ends)
    return updates


def side(look: Look) -> dict[str, Any]:
    """The slider of a look's long side."""
    value = {} if look.long_side is None else {"value": look.long_side}
    return gr.update(visible=look.kind != "own", **value)


def lines(notes: list[str]) -> str:
    """Sentences as the page shows them, each once."""
    return "".join(f"<p>{escape(note)}</p>" for note in dict.fromkeys(notes))


def told(lang: str, sentences: list[Sentence]) -> list[str]:
    """What is wrong with a view, in a few sentences; of more only the count."""
    different = list(dict.fromkeys(tell(lang, sentence) for sentence in sentences))
    more = len(different) - MOST
    return different if more < 2 else [*different[:MOST], say(lang, "link_more", count=more)]
