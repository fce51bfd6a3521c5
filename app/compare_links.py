"""What the Compare tab compares, as links and recipes tell it, and shown again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from app import example_photos
from app.compare_tab import CompareTab


def fields(tab: CompareTab) -> dict[str, Any]:
    """Name in a link → the widget; a visitor's own photos are never told."""
    return {
        "models": tab.models,
        "methods": tab.methods,
        "classes": tab.classes,
        "photos": tab.examples,
        "scale": tab.scale,
    }


def told(tab: CompareTab, values: Sequence[Any]) -> dict[str, Any]:
    """What the widgets' values say, in their order; what they begin with is left out."""
    known = list(example_photos.names())
    found = {}
    for (name, widget), value in zip(fields(tab).items(), values, strict=True):
        if value and value != widget.value:
            found[name] = [known[n] for n in value] if name == "photos" else value
    return found


def updates(tab: CompareTab, compare: Mapping[str, Any]) -> dict[Any, Any]:
    """The widgets' values that a view asks for."""
    known = list(example_photos.names())
    found = {}
    for name, widget in fields(tab).items():
        if name in compare:
            value = compare[name]
            found[widget] = gr.update(
                value=[known.index(photo) for photo in value] if name == "photos" else value
            )
    return found
