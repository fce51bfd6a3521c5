"""Fields whose bounds follow the model: what the browser sends may fit the model before it.

Gradio answers such a value with an error of its own, in English, and the event is lost. Here a
value that is no longer to be had becomes the nearest, or the usual one; a number that a person
typed is handed on as it is, for the method itself to refuse in a sentence.
"""

from __future__ import annotations

from typing import Any

import gradio as gr


class Slider(gr.Slider):
    """gr.Slider whose value is kept within its bounds."""

    is_template = True

    def preprocess(self, payload: float | None) -> float | None:
        if payload is None:
            return None
        return super().preprocess(min(max(payload, self.minimum), self.maximum))


class Number(gr.Number):
    """gr.Number that leaves it to others to say what is out of bounds."""

    is_template = True

    def preprocess(self, payload: float | None) -> float | int | None:
        return None if payload is None else self.round_to_precision(payload, self.precision)


class Menu(gr.Dropdown):
    """gr.Dropdown of one choice, empty where the choice is none of those there are now."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        return payload if payload in [value for _, value in self.choices] else None
