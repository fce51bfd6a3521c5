"""From the stream of events to what the page's widgets show."""

from __future__ import annotations

from html import escape
from typing import Any

import gradio as gr

from app import card_updates, cards, class_list, classes, costs, glance, trust
from app.choose import TOP, Chooser
from app.desks import Desk
from app.errors import explain_error
from app.explain_tab import ExplainTab
from app.explaining import Answered, Ended, Event, Mapped, Opened, Refused, Working
from app.gathering import Updates
from app.glance import Glance, GlanceEvent
from app.measuring import Measured, MeasureEvent, Unmeasured
from app.scene import Request
from app.studio import Studio
from app.texts import PATCHES, of_method, say, tell
from explainers import HeatMap, Photo, methods
from explainers.methods.explain import same_contrast


class Showing:
    """The widgets' side of one request: each event becomes updates of the widgets it touches."""

    def __init__(
        self,
        lang: str,
        request: Request,
        studio: Studio,
        desk: Desk,
        chooser: Chooser,
        tab: ExplainTab,
        ranks: gr.State,
    ) -> None:
        self.lang, self.request, self.studio, self.desk = lang, request, studio, desk
        self.chooser, self.tab, self.ranks = chooser, tab, ranks
        self.waiting = set(request.methods)
        self.dimmed: set[str] = set()
        self.heats: dict[str, HeatMap] = {}
        self.answered: Answered | None = None
        self.complete = False
        """Whether all maps are there."""
        self._telling: dict[str, Any] = {}  # what the page will know once it is told

    def begin(self) -> Updates:
        """The cards of the methods asked for, before anything is known."""
        wanted, empty = set(self.request.methods), self.request.scene.photo is None
        updates: Updates = {
            card.box: gr.update(visible=name in wanted and not empty)
            for name, card in self.tab.cards.items()
        }
        key = "explain_empty" if empty else "explain_no_method"
        updates[self.tab.hint] = gr.update(
            value=say(self.lang, key), visible=empty or not self.request.methods
        )
        if empty:
            chooser = self.chooser
            updates |= {
                chooser.top: gr.update(value="", visible=True),
                chooser.photo_note: "",
                self.tab.status: "",
                self.tab.glance: gr.update(visible=False),
                self.ranks: [],
            }
        elif self.desk.shown_photo != self.request.scene.photo:
            # What is still on the page belongs to another photo: nobody shall quote it.
            updates |= self._dim()
            updates |= {
                self.chooser.top: gr.update(value=""),
                self.chooser.photo_note: "",
                self.tab.status: f"<p>{escape(say(self.lang, 'status_trace'))}</p>",
                self.tab.glance: gr.update(visible=False),
                self.ranks: [],
            }
        self.desk.shown_photo = self.request.scene.photo
        return updates

    def updates(self, event: Event | MeasureEvent | GlanceEvent) -> Updates:
        """What one event changes on the page."""
        if isinstance(event, Opened):
            return {
                self.chooser.photo_note: self._photo_note(event.photo),
                **self._ratio(event.photo),
            }
        if isinstance(event, Working):
            return self._working(event)
        if isinstance(event, Answered):
            return self._answered(event)
        if isinstance(event, Mapped):
            return self._mapped(event)
        if isinstance(event, Refused):
            return self._refused(event)
        if isinstance(event, Ended):
            return self._ended(event)
        if isinstance(event, Measured):
            line = trust.measured(self.lang, event.measure)
            return {self.tab.cards[event.name].measure: line, **self._costs()}
        if isinstance(event, Unmeasured):
            line = trust.unmeasured(self.lang, event.reason)
            return {self.tab.cards[event.name].measure: line, **self._costs()}
        if isinstance(event, Glance):
            return self._glance()
        return {}

    def told(self) -> None:
        """The page has all updates made so far: what it knows need not be told again."""
        for name, value in self._telling.items():
            setattr(self.desk, name, value)
        self._telling.clear()

    def failed(self, error: Exception) -> Updates:
        """There is no photo or no model to work with; the cards are emptied, the reason said."""
        reason = explain_error(self.lang, error)
        updates = self._emptied("")
        updates[self.tab.status] = f"<p class='vs-refused'>{escape(reason)}</p>"
        updates[self.tab.cancel] = gr.update(interactive=False)
        return updates

    def _working(self, event: Working) -> Updates:
        lang, name = self.lang, event.what
        updates: Updates = {}
        if not self.dimmed:
            updates |= self._dim()
        if name in self.tab.cards:
            updates[self.tab.cards[name].text] = cards.working(lang, event.share, self._cost(name))
            done = len(self.request.methods) - len(self.waiting)
            what = of_method(lang, methods()[name], "title")
            text = say(
                lang, "status_method", method=what, step=done + 1, of=len(self.request.methods)
            )
            share = (done + event.share) / len(self.request.methods)
        else:
            text, share = say(lang, f"status_{name}"), event.share
        if event.waiting:
            text = say(lang, "status_queue")
        updates[self.tab.status] = f"<p>{escape(text)}</p>{cards.bar(share)}"
        return updates

    def _dim(self) -> Updates:
        """The maps that are awaited fade, and cannot be saved."""
        updates: Updates = {
            self.tab.cancel: gr.update(interactive=True),
            self.tab.save_all: gr.update(interactive=False),
            self.tab.save_recipe: gr.update(interactive=False),
        }
        for name in self.waiting:
            card = self.tab.cards[name]
            updates[card.image] = gr.update(elem_classes=["vs-map", "vs-stale"])
            updates[card.text] = cards.waiting(self.lang, self._cost(name))
            updates |= trust.nothing(card)
            updates[card.save] = gr.update(interactive=False)
        self.dimmed = set(self.waiting)
        return updates

    def _answered(self, event: Answered) -> Updates:
        chooser, vit = self.chooser, event.model
        self.answered = event
        has_head = vit.classes > 0
        updates: Updates = {
            self.tab.glance: gr.update(visible=self.request.scene.look.kind != "windows"),
            **self._glance(),
            chooser.class_note: self._class_note(event),
        }
        if not has_head:
            for widget in (chooser.top, chooser.target, chooser.against):
                updates[widget] = gr.update(value=None, visible=False)
            updates[self.ranks] = []
            self._telling["classes_of"] = None
            return updates
        shown, indices = classes.top(event.trace, TOP)
        updates[chooser.top] = gr.update(value=class_list.html(shown), visible=True)
        updates[self.ranks] = indices
        menu: dict[str, Any] = {"visible": True}
        if self.desk.classes_of != self.request.scene.model or vit.classes > classes.MOST:
            menu["choices"] = classes.menu(event.trace)
            self._telling["classes_of"] = self.request.scene.model
        updates[chooser.target] = gr.update(value=event.target, **menu)
        updates[chooser.against] = gr.update(value=event.against, **menu)
        return updates

    def _class_note(self, event: Answered) -> str:
        """Why there is no class to choose, or not the contrast that was chosen."""
        lang, wanted = self.lang, self.request.scene.against
        if not event.model.classes:
            return f"<p>{escape(say(lang, 'no_classes'))}</p>"
        if wanted is None or event.against is not None:
            return ""
        return f"<p>{escape(tell(lang, same_contrast(event.model.label(wanted))))}</p>"

    def _mapped(self, event: Mapped) -> Updates:
        self.waiting.discard(event.name)
        self.heats[event.name] = event.heat
        updates = self._drawn(event.name)
        if event.heat.windows:  # separate looks have no one answer to be held against
            updates |= trust.nothing(self.tab.cards[event.name])
        elif self.answered is not None:
            updates |= trust.below(
                *(self.lang, self.studio, self.desk, self.request, self.answered, event.heat),
                self.tab.cards[event.name],
            )
        return updates

    def _costs(self) -> Updates:
        """The names in the chooser tell the costs, now that a pass has been timed."""
        lang, model = self.lang, self.request.scene.eye
        pace = self.studio.pace.get(model)
        if self.answered is None or pace is None or self.desk.costs_of == (model, lang):
            return {}
        self._telling["costs_of"] = model, lang
        table, patches = methods(), self._patches
        updates: Updates = {}
        for question, group in self.tab.groups.items():
            names = [name for name, method in table.items() if method.question == question]
            choices = [(costs.tick(lang, table[name], patches, pace), name) for name in names]
            updates[group] = gr.update(choices=choices)
        return updates

    def _glance(self) -> Updates:
        if self.answered is None or self.request.scene.look.kind == "windows":
            return {}
        given = (self.lang, self.studio, self.desk, self.request, self.answered)
        return {self.tab.glance_strip: glance.html(*given, self.request.methods)}

    def _cost(self, name: str) -> str:
        parameters = self.request.parameters.get(name, {})
        pace = self.studio.pace.get(self.request.scene.eye)
        return costs.note(self.lang, methods()[name], parameters, self._patches, pace)

    @property
    def _patches(self) -> int:
        if self.answered is None:
            return PATCHES
        rows, columns = self.answered.trace.grid
        return rows * columns

    def _drawn(self, name: str) -> Updates:
        trace = None if self.answered is None else self.answered.trace
        given = (self.lang, self.request.display, self.desk.folder)
        heat, together = self.heats[name], list(self.heats.values())
        return card_updates.drawn(self.tab.cards[name], *given, heat, together, trace)

    def _refused(self, event: Refused) -> Updates:
        self.waiting.discard(event.name)
        reason = cards.refused(self.lang, event.reason)
        return card_updates.without(self.tab.cards[event.name], reason)

    def _ended(self, event: Ended) -> Updates:
        updates: Updates = {
            self.tab.cancel: gr.update(interactive=False),
            self.tab.save_all: gr.update(interactive=bool(self.heats)),
            self.tab.save_recipe: gr.update(interactive=bool(self.heats)),
        }
        if self.request.display.extent == "shared":  # which is known now
            for name in self.heats:
                updates |= self._drawn(name)
        if event.stopped:
            updates |= self._emptied(cards.stopped(self.lang))
            updates[self.tab.status] = f"<p>{escape(say(self.lang, 'status_stopped'))}</p>"
        elif self.request.scene.photo is not None:
            self.complete = True
            text = say(self.lang, "status_done", count=len(self.heats)) if self.heats else ""
            updates[self.tab.status] = f"<p>{escape(text)}</p>"
        return updates

    def _emptied(self, text: str) -> Updates:
        """No map for those still waiting: an earlier one would be of another photo or class."""
        updates: Updates = {}
        for name in self.waiting:
            updates |= card_updates.without(self.tab.cards[name], text, visible=True)
        return updates

    def _photo_note(self, photo: Photo) -> str:
        size = say(self.lang, "photo_size", width=photo.width, height=photo.height)
        lines = [size, *(tell(self.lang, note) for note in photo.notes)]
        return "".join(f"<p>{escape(line)}</p>" for line in lines)

    def _ratio(self, photo: Photo) -> Updates:
        """Room for maps of this photo's shape, so that nothing jumps when they arrive."""
        ratio = min(max(photo.width / photo.height, 0.6), 2.0)
        style = f"<style>.vs-map {{ --ratio: {ratio:.4f} }}</style>"
        return {self.tab.shape: style}
