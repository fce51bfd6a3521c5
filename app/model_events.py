"""Events of the model menu: load, offer a download, show its progress, stop it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import gradio as gr

from app import cards, handlers, settings
from app.errors import explain_error, guard, known_sentence
from app.showing import Updates
from app.texts import say
from app.widgets import AT_ONCE, QUIET, Widgets
from app.work import Job
from explainers import methods


def connect(page: Widgets, demo: gr.Blocks) -> None:
    """Let the menu change the scene's model, once it is there; until then all stays as it is."""
    chooser, lang = page.chooser, page.lang
    controls = list(page.tab.controls.values())
    buttons = [chooser.download, chooser.halt]
    outputs = [page.model, chooser.model, chooser.model_note, *buttons, *controls]

    def load(lang: str, request: gr.Request, model: str, name: str, download: bool) -> Any:
        desk = page.desk(request)
        hidden = {button: gr.update(visible=False) for button in buttons}
        try:
            for step in handlers.use_model(page.studio, desk, name, download):
                if isinstance(step, Job):
                    key = "status_download" if download else "status_model"
                    text = f"<p>{escape(say(lang, key, name=name))}</p>"
                    yield {chooser.model_note: text + cards.bar(step.share)}
                    continue
                updates: Updates = {
                    page.model: name,
                    chooser.model_note: handlers.model_facts(lang, name, step),
                    **hidden,
                }
                if desk.settings_of != name:
                    desk.settings_of = name
                    fitted = settings.refresh(page.t, methods(), step)
                    updates |= dict(zip(controls, fitted, strict=True))
                yield updates
        except Exception as error:
            reason = explain_error(lang, error)
            note = f"<p class='vs-refused'>{escape(reason)}</p>"
            sentence = known_sentence(error)
            if sentence is not None and sentence.key == "model_not_here":
                about = "".join(f"<p>{escape(t)}</p>" for t in handlers.described(lang, name))
                text = handlers.download_text(lang, name)
                offer = {chooser.download: gr.update(value=text, visible=True)}
                yield {chooser.model_note: about + note, **hidden, **offer}
                return
            gr.Warning(escape(reason, quote=False), title=say(lang, "model_refused"))
            menu = {chooser.model: gr.update(value=model)}
            yield {chooser.model_note: note, **hidden, **menu}

    @guard
    def chosen(lang: str, request: gr.Request, model: str, name: Any) -> Iterator[Updates]:
        wanted = str(name or "").strip() or model
        yield from load(lang, request, model, wanted, False)

    @guard
    def fetched(lang: str, request: gr.Request, model: str, name: Any) -> Iterator[Updates]:
        yield {
            chooser.download: gr.update(visible=False),
            chooser.halt: gr.update(visible=True),
        }
        yield from load(lang, request, model, str(name), True)

    @guard
    def halted(lang: str, request: gr.Request) -> Updates:
        page.desk(request).model_turn += 1
        note = f"<p>{escape(say(lang, 'download_halted'))}</p>"
        return {
            chooser.model_note: note,
            chooser.halt: gr.update(visible=False),
            chooser.download: gr.update(visible=True),
        }

    inputs = [lang, page.model, chooser.model]
    gr.on([demo.load, lang.change, chooser.model.input], chosen, inputs, outputs, **AT_ONCE)
    chooser.download.click(fetched, inputs, outputs, **AT_ONCE)
    chooser.halt.click(halted, lang, outputs, queue=False, **QUIET)
