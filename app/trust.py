"""What stands below a map about how far to trust it, as HTML."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import cards, costs, curve
from app.desks import Desk
from app.explain_tab import Card
from app.explaining import Answered
from app.measuring import measure_key, sanity_key
from app.scene import Request
from app.studio import EVERYBODY, Studio
from app.texts import say, tell
from explainers import HeatMap, methods
from explainers.measures import Measure, Sanity
from explainers.sentence import Sentence


def below(
    lang: str,
    studio: Studio,
    desk: Desk,
    request: Request,
    answered: Answered,
    heat: HeatMap,
    card: Card,
) -> dict[Any, Any]:
    """The widgets below a map that has just arrived: what is known of it already, or room."""
    store, name = studio.store, heat.method
    brief = store.get(desk.owner, measure_key(request, heat, answered))
    full = store.get(desk.owner, measure_key(request, heat, answered, full=True))
    checks = store.get(EVERYBODY, sanity_key(request, name))
    measurable = heat.kind != "rgb"
    known = full or brief
    return {
        card.measure: measured(lang, known) if known else busy(lang, "measure_working"),
        card.test: gr.update(visible=measurable, **({} if full else {"open": False})),
        card.curve: curve.drawing(lang, full) if full else "",
        card.checks: verdicts(lang, checks) if checks else "",
        card.check: gr.update(
            visible=checks is None, value=_check_label(lang, studio, request, answered, name)
        ),
    }


def nothing(card: Card) -> dict[Any, Any]:
    """The widgets below a card that has no map."""
    return {card.measure: "", card.test: gr.update(visible=False)}


def _check_label(lang: str, studio: Studio, request: Request, answered: Answered, name: str) -> str:
    rows, columns = answered.trace.grid
    vit, parameters = answered.model, request.parameters.get(name, {})
    count = costs.sanity_passes(
        methods()[name], parameters, rows * columns, vit.adapter.depth, vit.classes > 0
    )
    label, pace = say(lang, "check"), studio.pace.get(request.scene.eye)
    return label if pace is None else f"{label} · {costs.time_of(lang, count * pace)}"


def busy(lang: str, key: str, share: float | None = None) -> str:
    """Something is being measured; share: how much of it is done, where that is told."""
    progress = "" if share is None else cards.bar(share)
    return progress + cards.line("vs-state", say(lang, key))


def measured(lang: str, measure: Measure) -> str:
    """What removing the best patches did, in one line."""
    return cards.line("vs-measured", tell(lang, measure.sentence))


def unmeasured(lang: str, reason: Sentence | None) -> str:
    """Why there is no such line."""
    return cards.line("vs-state", tell(lang, reason) if reason else say(lang, "unexpected"))


def verdicts(lang: str, found: Sanity) -> str:
    """Whether the method depends on the class and on the weights."""
    sentences = [found.class_verdict, found.weights_verdict]
    return cards.line("vs-checked", " ".join(tell(lang, s) for s in sentences if s is not None))
