"""The Attention tab: every block and head at a glance, and live under the pointer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from app.attention_answers import Looks
from app.attention_data import Look
from app.texts import say, tell
from explainers.render.describe import REGIONS

THEME = Path(__file__).with_name("theme")

SCRIPTS = (
    *("attention.js", "attention_drawing.js", "attention_hands.js", "attention_words.js"),
    *("attention_dots.js", "attention_play.js", "attention_end.js"),
)
"""What the board knows, draws, is told by hand, and says; its charts; playing through the blocks;
and what Python says, which starts it all. One script, in this order."""

TEXTS = (
    "attention_where",
    "attention_who",
    "attention_block",
    "attention_block_up",
    "attention_block_down",
    "attention_head",
    "attention_head_n",
    "attention_mean",
    "attention_rolled",
    "attention_rolled_menu",
    "attention_rolled_none",
    "attention_scale",
    "attention_own",
    "attention_fixed",
    "attention_scale_own",
    "attention_scale_fixed",
    "attention_opacity",
    "attention_full",
    "attention_keys",
    "attention_decider",
    "attention_patch",
    "attention_patches",
    "attention_chip_decides",
    "attention_line",
    "attention_line_even",
    "attention_line_prefix",
    "attention_line_who",
    "attention_line_who_even",
    "attention_no_who",
    "attention_waiting",
    "attention_expired",
    "attention_lost",
    "attention_grid_title",
    "attention_grid_axes",
    "attention_grid_fixed",
    "attention_grid_own",
    "attention_grid_keys",
    "attention_play",
    "attention_play_step",
    "attention_stop",
    "attention_scale_run",
    "attention_film",
    "attention_distance_title",
    "attention_distance_axis",
    "attention_distance_dot",
    "attention_entropy_title",
    "attention_entropy_axis",
    "attention_entropy_dot",
    "attention_dots_keys",
    "attention_dots_mean",
)
"""What the board says itself; their values are filled in by its script."""


@dataclass
class AttentionTab:
    """The widgets: the board of maps and charts, and the note under it."""

    board: gr.HTML
    note: gr.HTML

    def outputs(self) -> list[Any]:
        """In the order of the lists that `empty`, `waiting`, `refused` and `ready` return."""
        return [self.board, self.note]


def build(t: gr.I18n, looks: Looks) -> AttentionTab:
    """Lay the tab out; the board asks ``looks`` for its numbers."""
    gr.HTML(t("attention_intro"), elem_classes="vs-intro")
    style = (THEME / "attention.css").read_text(encoding="utf-8")
    board = gr.HTML(
        value=None,
        html_template="<div class='vs-board'></div>",
        js_on_load=f"const CSS = {json.dumps(style)};\n{script()}",
        server_functions=looks.functions(),
        elem_id="vs-attention",
        elem_classes="vs-attention",
    )
    return AttentionTab(board, gr.HTML(elem_classes="vs-notes"))


def script() -> str:
    """The board's script: its parts see each other's names."""
    return "\n".join((THEME / name).read_text(encoding="utf-8") for name in SCRIPTS)


def stale(count: int) -> dict[str, Any]:
    """The board's value when what it shows no longer fits; it asks anew as soon as it is seen."""
    return {"state": "stale", "count": count}


def empty(lang: str) -> list[Any]:
    """There is no photo."""
    return _plain("empty", say(lang, "attention_empty"))


def waiting(lang: str) -> list[Any]:
    """The model is loaded, or at work."""
    value = {"state": "loading", "message": say(lang, "attention_working")}
    return [value, gr.skip()]


def refused(reason: str) -> list[Any]:
    """There is nothing to show, and why."""
    return _plain("refused", reason)


def ready(lang: str, found: Look, wanted: dict[str, Any] | None = None) -> list[Any]:
    """The board and the charts of a look; wanted: block, head, token and direction, if any."""
    facts = found.facts()
    facts["prefix"] = [token_name(lang, name) for name in facts["prefix"]]
    texts = {key: say(lang, key) for key in TEXTS}
    regions = [tell(lang, region) for row in REGIONS for region in row]
    told = {**texts, "regions": regions, **_charts(lang, found)}
    value = {"state": "ready", "facts": facts, "texts": told, "wanted": wanted}
    return [value, f"<p>{escape(say(lang, 'attention_note'))}</p>"]


def token_name(lang: str, name: str) -> str:
    """A prefix token's name: registers are numbered words, the others go by their letters."""
    word, _, number = name.partition(" ")
    return say(lang, "attention_register", number=number) if word == "register" else name


def _plain(state: str, message: str) -> list[Any]:
    return [{"state": state, "message": message}, ""]


def _charts(lang: str, found: Look) -> dict[str, str]:
    """What the charts show, in words."""
    distance, entropy = found.figures.distance, found.figures.entropy
    return {
        "distance": say(
            lang,
            "attention_distance_text",
            first=f"{distance[0].mean():.0f}",
            last=f"{distance[-1].mean():.0f}",
            nearest=f"{distance.min():.0f}",
            furthest=f"{distance.max():.0f}",
        ),
        "entropy": say(
            lang,
            "attention_entropy_text",
            first=f"{100 * entropy[0].mean():.0f}",
            last=f"{100 * entropy[-1].mean():.0f}",
            sharpest=f"{100 * entropy.min():.0f}",
            widest=f"{100 * entropy.max():.0f}",
        ),
    }
