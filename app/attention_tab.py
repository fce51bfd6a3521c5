"""The Attention tab: every block and head at a glance, and live under the pointer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from app.attention_answers import Looks
from app.attention_data import Look
from app.inside_tab import view
from app.texts import say, tell
from explainers.render.describe import REGIONS

THEME = Path(__file__).with_name("theme")

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
    "attention_line_prefix",
    "attention_line_who",
    "attention_no_who",
    "attention_waiting",
    "attention_expired",
    "attention_lost",
    "attention_grid_title",
    "attention_grid_axes",
    "attention_grid_fixed",
    "attention_grid_own",
    "attention_grid_keys",
)
"""What the board says itself; their values are filled in by its script."""


@dataclass
class AttentionTab:
    """The widgets: the board of maps, and the two charts with their texts."""

    board: gr.HTML
    note: gr.HTML
    charts: gr.Row
    distance: gr.Image
    entropy: gr.Image
    distance_text: gr.HTML
    entropy_text: gr.HTML

    def outputs(self) -> list[Any]:
        """In the order of the lists that `empty`, `waiting`, `refused` and `ready` return."""
        return [
            *(self.board, self.note, self.charts),
            *(self.distance, self.distance_text, self.entropy, self.entropy_text),
        ]


def build(t: gr.I18n, looks: Looks) -> AttentionTab:
    """Lay the tab out; the board asks ``looks`` for its numbers."""
    gr.HTML(t("attention_intro"), elem_classes="vs-intro")
    style = (THEME / "attention.css").read_text(encoding="utf-8")
    script = (THEME / "attention.js").read_text(encoding="utf-8")
    board = gr.HTML(
        value=None,
        html_template="<div class='vs-board'></div>",
        js_on_load=f"const CSS = {json.dumps(style)};\n{script}",
        server_functions=looks.functions(),
        elem_id="vs-attention",
        elem_classes="vs-attention",
    )
    note = gr.HTML(elem_classes="vs-notes")
    with gr.Row(elem_classes=["vs-cards", "vs-inside"], visible=False) as charts:
        with gr.Column(elem_classes="vs-card", min_width=280):
            gr.HTML(t("attention_distance_title"), elem_classes="vs-heading")
            distance, distance_text = view("vs-distance")
        with gr.Column(elem_classes="vs-card", min_width=280):
            gr.HTML(t("attention_entropy_title"), elem_classes="vs-heading")
            entropy, entropy_text = view("vs-entropy")
    return AttentionTab(board, note, charts, distance, entropy, distance_text, entropy_text)


def stale(count: int) -> dict[str, Any]:
    """The board's value when what it shows no longer fits; it asks anew as soon as it is seen."""
    return {"state": "stale", "count": count}


def empty(lang: str) -> list[Any]:
    """There is no photo."""
    return _plain("empty", say(lang, "attention_empty"))


def waiting(lang: str) -> list[Any]:
    """The model is loaded, or at work."""
    value = {"state": "loading", "message": say(lang, "attention_working")}
    return [value, *[gr.skip()] * 6]


def refused(reason: str) -> list[Any]:
    """There is nothing to show, and why."""
    return _plain("refused", reason)


def ready(lang: str, found: Look) -> list[Any]:
    """The board and the charts of a look."""
    facts = found.facts()
    facts["prefix"] = [token_name(lang, name) for name in facts["prefix"]]
    texts = {key: say(lang, key) for key in TEXTS}
    regions = [tell(lang, region) for row in REGIONS for region in row]
    value = {"state": "ready", "facts": facts, "texts": {**texts, "regions": regions}}
    note = say(lang, "attention_note")
    return [value, f"<p>{escape(note)}</p>", gr.update(visible=True), *_charts(lang, found)]


def token_name(lang: str, name: str) -> str:
    """A prefix token's name: registers are numbered words, the others go by their letters."""
    word, _, number = name.partition(" ")
    return say(lang, "attention_register", number=number) if word == "register" else name


def _plain(state: str, message: str) -> list[Any]:
    value = {"state": state, "message": message}
    return [value, "", gr.update(visible=False), *[gr.skip()] * 4]


def _charts(lang: str, found: Look) -> Iterator[Any]:
    from explainers.render.head_charts import head_chart  # matplotlib is slow to import

    distance, entropy = found.figures.distance, found.figures.entropy
    texts = (
        say(
            lang,
            "attention_distance_text",
            first=f"{distance[0].mean():.0f}",
            last=f"{distance[-1].mean():.0f}",
            nearest=f"{distance.min():.0f}",
            furthest=f"{distance.max():.0f}",
        ),
        say(
            lang,
            "attention_entropy_text",
            first=f"{100 * entropy[0].mean():.0f}",
            last=f"{100 * entropy[-1].mean():.0f}",
            sharpest=f"{100 * entropy.min():.0f}",
            widest=f"{100 * entropy.max():.0f}",
        ),
    )
    labels = ("mean attention distance (px)", "entropy (share of ln N)")
    limits = (None, 1.05)
    for values, label, limit, text in zip((distance, entropy), labels, limits, texts, strict=True):
        picture = head_chart(values, label, limit)
        yield gr.update(value=picture, alt_text=text)
        yield f"<p>{escape(text)}</p>"
