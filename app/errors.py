"""Errors on their way to a visitor: one plain sentence in their language, never a traceback."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from html import escape
from typing import Any

import gradio as gr

from app.texts import say, tell
from explainers.sentence import Sentence

logger = logging.getLogger(__name__)


def known_sentence(error: BaseException) -> Sentence | None:
    """The library's own sentence in an error, or None: such a text is safe to show."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, Sentence) else None


def explain_error(lang: str, error: BaseException) -> str:
    """What a visitor is told about an error; an unknown one is logged and gets a general text."""
    sentence = known_sentence(error)
    if sentence is not None:
        return tell(lang, sentence)
    logger.error("unexpected error", exc_info=error)
    return say(lang, "unexpected")


def toast(lang: str, error: BaseException) -> str:
    """`explain_error` for a toast, which takes HTML: a name with "<" is shown, not obeyed."""
    return escape(explain_error(lang, error), quote=False)


def guard(
    handler: Callable[..., Any], words: Callable[[str, BaseException], str] = toast
) -> Callable[..., Any]:
    """Make a handler, whose first argument is the language, fail in one sentence.

    ``words`` makes it of the error; programs, who see no toast, take `explain_error`.
    Works for functions and for generators. The original exception is cut off (``from None``),
    so neither its text nor a path can reach the page.
    """

    def to_toast(lang: str, error: Exception) -> gr.Error:
        return gr.Error(words(lang, error), title=say(lang, "error_title"), print_exception=False)

    if inspect.isgeneratorfunction(handler):

        @functools.wraps(handler)
        def stream(lang: str, *args: Any, **kwargs: Any) -> Any:
            try:
                yield from handler(lang, *args, **kwargs)
            except gr.Error:
                raise
            except Exception as error:
                raise to_toast(lang, error) from None

        return stream

    @functools.wraps(handler)
    def call(lang: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return handler(lang, *args, **kwargs)
        except gr.Error:
            raise
        except Exception as error:
            raise to_toast(lang, error) from None

    return call
