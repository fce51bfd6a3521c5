"""The size of the look, chosen once for all tabs: the model's own, the whole photo, windows."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import gradio as gr

from app.texts import say, tell
from explainers.forecast import Forecast
from explainers.look import Look

SHORTEST, LONGEST, STEP, USUAL = 224, 2048, 16, 768
"""Pixels of the long side that the slider offers."""


@dataclass
class LookControl:
    """kind: "own", "whole" or "windows"; side: the long side, seen for the latter two; note: what
    the look costs, or why it is refused."""

    kind: gr.Radio
    side: gr.Slider
    note: gr.HTML


def build(t: gr.I18n) -> LookControl:
    kinds = [(t(f"look_{kind}"), kind) for kind in ("own", "whole", "windows")]
    kind = gr.Radio(kinds, value="own", label=t("look"), elem_id="vs-look")
    side = gr.Slider(
        SHORTEST,
        LONGEST,
        value=USUAL,
        step=STEP,
        label=t("look_side"),
        visible=False,
        elem_id="vs-look-side",
    )
    return LookControl(kind, side, gr.HTML(elem_classes="vs-facts", elem_id="vs-look-note"))


def told(lang: str, forecast: Forecast, look: Look) -> str:
    """What a look costs, and which tabs look so."""
    lines = [tell(lang, forecast.sentence)]
    if look.kind == "windows":
        lines.append(say(lang, "look_windows_note", count=forecast.looks))
    elif look.kind == "whole":
        lines.append(say(lang, "look_whole_note"))
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def refused(reason: str) -> str:
    """Why a look is not taken; the one before stays."""
    return f"<p class='vs-refused'>{escape(reason)}</p>"
