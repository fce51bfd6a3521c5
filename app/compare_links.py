"""What the Compare tab compares, as links and recipes tell it, and shown again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from app import example_photos
from app.compare_tab import CompareTab
from app.comparison import CHOSEN
from explainers.registry import DEFAULT_METHODS


def fields(tab: CompareTab) -> dict[str, Any]:
    """Name in a link → the widget; a visitor's own photos are never told."""
    return {
        "models": tab.models,
        "methods": tab.methods,
        "classes": tab.classes,
        "photos": tab.examples,
        "scale": tab.scale,
    }


def told(values: Sequence[Any]) -> dict[str, Any]:
    """What the widgets' values say, in their order; what is usual is left out."""
    models, methods, classes, examples, scale = values
    known = list(example_photos.names())
    found = {
        "models": list(models or []),
        "methods": list(methods or []),
        "classes": [str(aim) for aim in classes or []],
        "photos": [known[n] for n in examples or []],
        "scale": scale,
    }
    usual = {
        "models": [],
        "methods": list(DEFAULT_METHODS),
        "classes": [CHOSEN],
        "photos": [],
        "scale": "own",
    }
    return {name: value for name, value in found.items() if value != usual[name]}


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
