"""Events of the model menu: load, offer a download, show its progress, stop it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import gradio as gr

from app import cards, handlers, link_reading, settings
from app.desks import Desk
from app.errors import explain_error, guard, known_sentence
from app.gathering import Updates
from app.texts import say
from app.widgets import AT_ONCE, QUIET, Widgets
from app.work import Job
from explainers import VisionModel, methods


def connect(page: Widgets, demo: gr.Blocks) -> None:
    """Let the menu change the scene's model, once it is there; until then all stays as it is."""
    chooser, lang = page.chooser, page.lang
    outputs = touched(page)

    def load(lang: str, request: gr.Request, model: str, name: str, download: bool) -> Any:
        desk = page.desk(request)
        try:
            for step in handlers.use_model(page.studio, desk, name, download):
                if isinstance(step, Job):
                    yield loading(page, lang, name, step, download)
                    continue
                desk.ready_model = name
                yield {**fit_settings(page, desk, name, step), **in_use(page, lang, name, step)}
        except Exception as error:
            desk.wanted_model = None
            yield not_had(page, lang, model, name, error)

    @guard
    def renewed(lang: str, request: gr.Request, model: str, name: Any) -> Iterator[Updates]:
        """The page is opened, or speaks another language: the model stays the one chosen last."""
        desk = page.desk(request)
        if not desk.followed and link_reading.from_query(dict(request.query_params)):
            return  # the view that the address tells brings its model, and may have told it first
        wanted = desk.wanted_model or str(name or "").strip() or model
        yield from load(lang, request, model, wanted, False)

    @guard
    def chosen(lang: str, request: gr.Request, model: str, name: Any) -> Iterator[Updates]:
        wanted = str(name or "").strip() or model
        page.desk(request).wanted_model = wanted
        yield from load(lang, request, model, wanted, False)

    @guard
    def fetched(lang: str, request: gr.Request, model: str, name: Any) -> Iterator[Updates]:
        yield {
            chooser.download: gr.update(visible=False),
            chooser.halt: gr.update(visible=True),
        }
        page.desk(request).wanted_model = str(name)
        yield from load(lang, request, model, str(name), True)

    @guard
    def halted(lang: str, request: gr.Request) -> Updates:
        desk = page.desk(request)
        desk.model_turn += 1
        desk.wanted_model = None
        note = f"<p>{escape(say(lang, 'download_halted'))}</p>"
        return {
            chooser.model_note: note,
            chooser.halt: gr.update(visible=False),
            chooser.download: gr.update(visible=True),
        }

    def adopt(request: gr.Request) -> Any:
        """The loaded model comes into use once the page has its settings: the maps that follow
        read them, and a page that is told both at once may still send the old ones."""
        return page.desk(request).ready_model or gr.skip()

    inputs = [lang, page.model, chooser.model]
    for event in (
        gr.on([demo.load, lang.change], renewed, inputs, outputs, **AT_ONCE),
        chooser.model.input(chosen, inputs, outputs, **AT_ONCE),
        chooser.download.click(fetched, inputs, outputs, **AT_ONCE),
    ):
        event.success(adopt, None, page.model, **AT_ONCE)
    chooser.halt.click(halted, lang, outputs, queue=False, **QUIET)


def touched(page: Widgets) -> list[Any]:
    """Every widget that the updates made here change, besides the model in use."""
    chooser = page.chooser
    buttons = [chooser.download, chooser.halt]
    return [chooser.model, chooser.model_note, *buttons, *page.tab.controls.values()]


def loading(page: Widgets, lang: str, name: str, job: Job, download: bool = False) -> Updates:
    """A model is on its way."""
    key = "status_download" if download else "status_model"
    text = f"<p>{escape(say(lang, key, name=name))}</p>"
    return {page.chooser.model_note: text + cards.bar(job.share)}


def fit_settings(page: Widgets, desk: Desk, name: str, vit: VisionModel) -> Updates:
    """The methods' settings at their defaults for a model; nothing where they fit it already."""
    if desk.settings_of == name:
        return {}
    desk.settings_of = name
    fitted = settings.refresh(page.t, methods(), vit)
    return dict(zip(page.tab.controls.values(), fitted, strict=True))


def in_use(page: Widgets, lang: str, name: str, vit: VisionModel) -> Updates:
    """What stands under the menu once a model is there."""
    return {page.chooser.model_note: handlers.model_facts(lang, name, vit), **_no_buttons(page)}


def not_had(page: Widgets, lang: str, model: str, name: str, error: Exception) -> Updates:
    """Why a model is not to be had; a download is offered where that would help. Where nothing
    would, the menu goes back to ``model``, the one in use, and says what that is."""
    chooser, reason = page.chooser, explain_error(lang, error)
    note = f"<p class='vs-refused'>{escape(reason)}</p>"
    sentence = known_sentence(error)
    if sentence is not None and sentence.key == "model_not_here":
        about = "".join(f"<p>{escape(t)}</p>" for t in handlers.described(lang, name))
        offer = gr.update(value=handlers.download_text(lang, name), visible=True)
        return {
            chooser.model_note: about + note,
            **_no_buttons(page),
            chooser.download: offer,
        }
    gr.Warning(escape(reason, quote=False), title=say(lang, "model_refused"))
    kept = page.studio.models.ready(model)
    facts = "" if kept is None else handlers.model_facts(lang, model, kept)
    return {
        chooser.model_note: note + facts,
        **_no_buttons(page),
        chooser.model: gr.update(value=model),
    }


def _no_buttons(page: Widgets) -> Updates:
    hidden = gr.update(visible=False)
    return {page.chooser.download: hidden, page.chooser.halt: hidden}
