"""Making a function an endpoint whose schema says what every value means."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component
from gradio.utils import get_function_description

from app.errors import explain_error, guard

QUEUE: dict[str, Any] = {"concurrency_id": "api", "concurrency_limit": 4}
"""All endpoints wait in one line, of which so many are answered at once."""


def offer(
    name: str,
    answer: Callable[..., Any],
    asked: Sequence[Component],
    given: Sequence[Component],
) -> None:
    """Offer ``answer`` as ``/name``. Its docstring is what callers read.

    ``Args:`` has a line for each of ``asked``, ``Returns:`` one for each of ``given``. An error
    is one plain sentence, never a traceback.
    """
    _, meanings, results = get_function_description(answer)
    of_values = [meanings[name] for name in meanings if meanings[name]]
    of_results = [line.partition(": ")[2] for line in results]
    for component, text in zip(asked, of_values, strict=True):
        component.api_info_as_input = _told(component.api_info_as_input(), text)  # type: ignore[method-assign]
    for component, text in zip(given, of_results, strict=True):
        component.api_info_as_output = _told(component.api_info_as_output(), text)  # type: ignore[method-assign]
    gr.Button().click(_plainly(answer), asked, given, api_name=name, **QUEUE)


def _told(schema: dict[str, Any], text: str) -> Callable[[], dict[str, Any]]:
    """A component's schema with what its value means, where clients and pages look for it."""
    return lambda: {**schema, "description": text, "additional_description": text}


def _plainly(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, its errors in one English sentence."""
    guarded = guard(lambda lang, *values: answer(*values), explain_error)

    @functools.wraps(answer)
    def call(*values: Any) -> Any:
        return guarded("en", *values)

    return call
