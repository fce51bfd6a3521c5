"""The page's public endpoints: what a program or an assistant may ask of it, by name.

All of them go the way of the page itself: the same library calls, the same workers, the same
files of one visitor. Each file ``api_….py`` holds the endpoints of one kind.
"""

from __future__ import annotations

import gradio as gr

from app import (
    api_attention,
    api_compare,
    api_explain,
    api_figures,
    api_listing,
    api_measure,
    api_replay,
)
from app.studio import Studio


def add_endpoints(studio: Studio) -> None:
    """Add all of them; their widgets are not on the page."""
    with gr.Column(visible=False):
        api_listing.add(studio)
        api_explain.add(studio)
        api_attention.add(studio)
        api_measure.add(studio)
        api_compare.add(studio)
        api_figures.add(studio)
        api_replay.add(studio)
