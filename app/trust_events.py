"""Events below a map: its curve is drawn when it is opened, its method checked when asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from app import cards, curve, trust
from app.errors import explain_error, guard
from app.explaining import Answered
from app.gathering import Updates
from app.keys import aim, trace_key
from app.making import Outdated
from app.measuring import checks, deletion, measure_key
from app.texts import say
from app.widgets import AT_ONCE, Widgets
from explainers import Cancelled, HeatMap


def connect(page: Widgets) -> None:
    """One pair of handlers a card."""
    studio = page.studio

    def known(request: gr.Request, values: Any, name: str) -> tuple[Any, Answered, HeatMap] | None:
        """The request, and what was answered to it, while it is remembered."""
        desk, asked = page.desk(request), page.request(values)
        heats = studio.remembered(desk, replace(asked, methods=(name,)))
        scene = asked.scene
        if not heats or scene.photo is None:
            return None
        trace = studio.store.get(desk.owner, trace_key(scene.single, heats[0].photo))
        if trace is None:
            return None
        target, against = aim(trace, scene)
        return asked, Answered(trace.model, trace, target, against, desk.turn), heats[0]

    def opened(name: str) -> Any:
        place = page.tab.cards[name].curve

        @guard
        def draw(lang: str, request: gr.Request, *values: Any) -> Iterator[Updates]:
            found = known(request, values, name)
            if found is None:
                yield {place: cards.line("vs-state", say(lang, "test_gone"))}
                return
            asked, answered, heat = found
            desk = page.desk(request)
            key = measure_key(asked, heat, answered, full=True)
            model = asked.scene.eye
            making = deletion(studio, desk, model, key, heat, answered, full=True)
            try:
                while desk.turn == answered.turn:
                    job = next(making)
                    yield {place: trust.busy(lang, "curve_working", job.share)}
            except StopIteration as end:
                if desk.turn == answered.turn:
                    yield {place: curve.drawing(lang, end.value)}
            except (Cancelled, Outdated):
                yield {place: cards.line("vs-state", say(lang, "test_stopped"))}
            except Exception as error:
                yield {place: cards.line("vs-state", explain_error(lang, error))}

        return draw

    def pressed(name: str) -> Any:
        card = page.tab.cards[name]

        @guard
        def check(lang: str, request: gr.Request, *values: Any) -> Iterator[Updates]:
            found = known(request, values, name)
            if found is None:
                yield {card.checks: cards.line("vs-state", say(lang, "test_gone"))}
                return
            asked, answered, _ = found
            making = checks(studio, page.desk(request), asked, name, answered.trace)
            running = {card.check: gr.update(interactive=False)}
            running[page.tab.cancel] = gr.update(interactive=True)
            over = {card.check: gr.update(interactive=True)}
            over[page.tab.cancel] = gr.update(interactive=False)
            yield running
            try:
                while True:
                    job = next(making)
                    yield {card.checks: trust.busy(lang, "checks_working", job.share)}
            except StopIteration as end:
                over[card.check] = gr.update(visible=False, interactive=True)
                yield {card.checks: trust.verdicts(lang, end.value), **over}
            except (Cancelled, Outdated):
                yield {card.checks: cards.line("vs-state", say(lang, "test_stopped")), **over}
            except Exception as error:
                yield {card.checks: cards.line("vs-refused", explain_error(lang, error)), **over}

        return check

    for name, card in page.tab.cards.items():
        card.test.expand(opened(name), page.asked, card.curve, **AT_ONCE)
        outputs = [card.checks, card.check, page.tab.cancel]
        card.check.click(pressed(name), page.asked, outputs, **AT_ONCE)
