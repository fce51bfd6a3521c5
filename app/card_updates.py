"""What a method's card shows: its map, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gradio as gr
from PIL import Image

from app import cards, drawing, settings, trust
from app.errors import explain_error
from app.explain_tab import Card
from app.files import write_png
from app.gathering import Updates
from app.scene import Display
from app.texts import say
from explainers import HeatMap, methods
from explainers.methods.baselines import BASELINES, baseline_image
from explainers.trace import Trace


def drawn(
    card: Card,
    lang: str,
    display: Display,
    folder: Path,
    heat: HeatMap,
    together: Sequence[HeatMap],
    trace: Trace | None,
) -> Updates:
    """The card with its map; ``together``: the maps that may share a scale with it.

    trace: what the picture of nothing is made from, where the method has one.
    """
    try:
        picture = drawing.draw(heat, display, together)
    except ValueError as error:
        return without(card, cards.line("vs-refused", explain_error(lang, error)))
    note = drawing.scale_note(heat, display, together)
    text = drawing.colour_bar(heat, display, together) + cards.done(lang, heat, note)
    if heat.method in settings.PICKED:
        text = cards.line("vs-state", say(lang, "pick")) + text
    updates: Updates = {
        card.image: gr.update(
            value=write_png(picture, folder, heat.method),
            visible=True,
            alt_text=cards.description(lang, heat),
            elem_classes=["vs-map"],
        ),
        card.text: text,
        card.save: gr.update(interactive=True),
    }
    setting = settings.baseline_of(methods()[heat.method])
    if card.baseline is not None and setting is not None and trace is not None:
        chosen = heat.parameters[setting]
        updates[card.baseline_box] = gr.update(visible=chosen in BASELINES)
        if chosen in BASELINES:
            nothing = Image.fromarray(baseline_image(trace, chosen))
            path = write_png(nothing, folder, "baseline")
            updates[card.baseline] = gr.update(value=path, alt_text=say(lang, "baseline"))
    return updates


def without(card: Card, text: str, visible: bool = False) -> Updates:
    """The card without a map; ``visible``: whether the place of one stays open."""
    updates: Updates = {
        card.image: gr.update(value=None, visible=visible, elem_classes=["vs-map"]),
        card.text: text,
        card.save: gr.update(interactive=False),
        **trust.nothing(card),
    }
    if card.baseline_box is not None:
        updates[card.baseline_box] = gr.update(visible=False)
    return updates
