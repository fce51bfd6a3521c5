"""The most likely classes as a list of buttons: a bar, a name and its probability each."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import gradio as gr

LEAST = 0.0005
"""The smallest probability that is not 0.0 % in print; below it a bound stands."""

_JS = """
element.addEventListener('click', event => {
  const button = event.target.closest('button[data-index]');
  if (button) trigger('pick', {index: Number(button.dataset.index)});
});
"""


def build(t: gr.I18n) -> gr.HTML:
    """The list; it triggers ``pick`` with the ``index`` of the entry clicked, from 0."""
    return gr.HTML(
        label=t("top"),
        show_label=True,
        container=True,
        padding=True,
        js_on_load=_JS,
        elem_id="vs-top",
        elem_classes="vs-ranks",
    )


def html(shown: Mapping[str, float]) -> str:
    """name → probability, most likely first, as the list's value."""
    return "".join(
        f"<button type='button' data-index='{index}'><span>{escape(name)}</span>"
        f"<b>{percent(share)}</b><i style='--share:{100 * share:.2f}%'></i></button>"
        for index, (name, share) in enumerate(shown.items())
    )


def percent(share: float) -> str:
    """A probability as "12.3 %"; what would print as 0.0 % or 100.0 % without being so, as a
    bound: "<0.1 %", ">99.9 %"."""
    if 0 < share < LEAST:
        return "&lt;0.1 %"
    if 1 - LEAST < share < 1:
        return "&gt;99.9 %"
    return f"{100 * share:.1f} %"
