"""Tabs that are not built yet: what will be there, so that nobody meets an empty page."""

from __future__ import annotations

import gradio as gr

NAMES = ("anatomy", "compare")


def build(t: gr.I18n, name: str) -> None:
    """The page of a tab to come: a heading, what it will answer, and three things it will show."""
    with gr.Column(elem_classes="vs-coming"):
        gr.HTML(t(f"coming_{name}_title"), elem_classes="vs-heading")
        gr.HTML(t(f"coming_{name}_lead"), elem_classes="vs-intro")
        with gr.Row(elem_classes="vs-cards"):
            for number in (1, 2, 3):
                with gr.Column(elem_classes="vs-card vs-plan", min_width=240):
                    gr.HTML(t(f"coming_{name}_{number}"))
        gr.HTML(t("coming_note"), elem_classes="vs-notes")
