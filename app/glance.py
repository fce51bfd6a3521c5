"""All quick methods on this photo as small pictures, made while nobody waits for anything."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from html import escape

import gradio as gr
from PIL import Image

from app.costs import passes
from app.desks import Desk
from app.errors import known_sentence, logger
from app.explaining import Answered
from app.keys import MapKey, map_key
from app.making import Making, Outdated, Stopped
from app.scene import Request
from app.studio import Studio
from app.texts import FREE, of_method, say
from app.work import Report
from explainers import Cancelled, HeatMap, explain, methods
from explainers.render.overlay import overlay

WIDE = 132
"""Pixels of a small picture's width."""

EVERY = 1.5
"""Seconds between two looks of the visitor at what has come: all pictures go anew each time."""

_JS = """
element.addEventListener('click', event => {
  const button = event.target.closest('button[data-name]');
  if (button) trigger('pick', {name: button.dataset.name});
});
"""


@dataclass(frozen=True)
class Glance:
    """Some more of the small pictures are there."""


@dataclass(frozen=True)
class Sketching:
    """A small picture is being made, or has just been."""

    name: str


GlanceEvent = Glance | Sketching


def panel(t: gr.I18n) -> tuple[gr.Accordion, gr.HTML]:
    """The folded panel; it triggers ``pick`` with the ``name`` of the method clicked."""
    with gr.Accordion(
        t("glance"), open=False, visible=False, elem_classes="vs-glance", elem_id="vs-glance"
    ) as box:
        strip = gr.HTML(js_on_load=_JS, label=t("glance"), elem_classes="vs-text")
    return box, strip


def glancing(
    studio: Studio, desk: Desk, request: Request, answered: Answered
) -> Iterator[GlanceEvent]:
    """Make the pictures one by one; ends as soon as the visitor asks for anything else."""
    told = time.monotonic()
    try:
        for name in quick(request, answered):
            try:
                for _ in _picture(studio, desk, request, answered, name):
                    yield Sketching(name)
            except (Stopped, Cancelled, Outdated):
                raise
            except Exception as error:  # that method has no picture; its card would say why
                if known_sentence(error) is None:
                    logger.error("%s failed", name, exc_info=error)
                continue
            if time.monotonic() - told > EVERY:
                told = time.monotonic()
                yield Glance()
            else:
                yield Sketching(name)
        yield Glance()
    except (Stopped, Cancelled, Outdated):
        return


def quick(request: Request, answered: Answered) -> list[str]:
    """The methods of at most three forward passes that this model supports."""
    rows, columns = answered.trace.grid
    return [
        name
        for name, method in methods().items()
        if passes(method, request.parameters.get(name, {}), rows * columns) <= FREE
        and answered.model.supports(name)
    ]


def html(
    lang: str,
    studio: Studio,
    desk: Desk,
    request: Request,
    answered: Answered,
    ticked: Collection[str],
) -> str:
    """The pictures that are there, and room for the others; each is a button."""
    buttons = []
    for name in quick(request, answered):
        method = methods()[name]
        title = escape(of_method(lang, method, "title"), quote=True)
        source = studio.store.get(desk.owner, _key(request, answered, name))
        picture = f"<img alt='' src='{source}'>" if source else "<i></i>"
        meaning = escape(of_method(lang, method, "meaning"), quote=True)
        pressed = "true" if name in ticked else "false"
        buttons.append(
            f"<button type='button' data-name='{name}' title='{meaning}' "
            f"aria-pressed='{pressed}'>{picture}<span>{title}</span></button>"
        )
    hint = f"<p class='vs-state'>{escape(say(lang, 'glance_hint'))}</p>"
    return f"{hint}<div class='vs-strip'>{''.join(buttons)}</div>"


def _picture(
    studio: Studio, desk: Desk, request: Request, answered: Answered, name: str
) -> Making[str]:
    """The map, remembered as one that was asked for, and then its small picture."""
    key = _map_key(request, answered, name)
    parameters = request.parameters.get(name, {})

    def make(report: Report) -> HeatMap:
        heat = explain(
            name,
            answered.trace,
            target=key.target,
            against=key.against,
            progress=report,
            **parameters,
        )
        return heat[0] if isinstance(heat, list) else heat

    heat = yield from studio.aside(desk, key, make, answered.turn)
    small = studio.aside(
        desk, _key(request, answered, name), lambda report: _jpeg(heat), answered.turn
    )
    return (yield from small)


def _jpeg(heat: HeatMap) -> str:
    picture: Image.Image = overlay(heat, width=WIDE)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _map_key(request: Request, answered: Answered, name: str) -> MapKey:
    photo, parameters = answered.trace.photo, request.parameters.get(name, {})
    model = request.scene.eye
    return map_key(model, photo, name, answered.target, answered.against, parameters)


def _key(request: Request, answered: Answered, name: str) -> Hashable:
    return "small", _map_key(request, answered, name)
