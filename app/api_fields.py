"""What endpoints take: widgets that hand a value on as it came, for the library to refuse.

Gradio's own refusals would not name what is admitted, or not be a sentence at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from app.files import PhotoFiles, PhotoInput
from explainers.scalars import shown
from explainers.sentence import Sentence

MODEL, METHODS = "embedded", "rollout"
"""What endpoints take where model and methods are left out or null."""


class Choice(gr.Dropdown):
    """One of the choices that the schema names; `demand` refuses the rest."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        return payload


class Amount(gr.Number):
    """A number, or null."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        return payload


class Table(gr.JSON):
    """A JSON object of objects."""

    is_template = True

    def api_info(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "object"}}


def photo() -> PhotoInput:
    """One photo, as an uploaded file."""
    return PhotoInput(label="photo", image_mode=None)


def photos() -> PhotoFiles:
    """Several photos, as uploaded files."""
    return PhotoFiles(label="photos", file_count="multiple", file_types=["image"])


def text(name: str, value: str = "") -> gr.Textbox:
    return gr.Textbox(value, label=name)


def whole(name: str, value: int | None = None) -> Amount:
    return Amount(value, label=name, precision=0)


def amount(name: str, value: float) -> Amount:
    return Amount(value, label=name)


def choice(name: str, known: Sequence[str]) -> Choice:
    """One of ``known``; the first where it is left out."""
    return Choice(list(known), value=known[0], label=name)


def settings() -> Table:
    return Table(label="settings")


def demand(name: str, value: Any, known: Sequence[str]) -> None:
    """ValueError for a value that is none of those there are."""
    if value not in known:
        raise refusal(name, value, ", ".join(known))


def refusal(name: str, value: Any, known: str) -> ValueError:
    """That a value cannot be, and what it can be."""
    return ValueError(
        Sentence(
            "api_value",
            "{name} cannot be {value}; it can be: {known}.",
            name=name,
            value=shown(value),
            known=known,
        )
    )
