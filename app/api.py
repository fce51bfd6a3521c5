"""The page's public endpoints: what a program may ask of it, by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr

from app import handlers
from app.desks import Desk
from app.errors import explain_error, guard
from app.explaining import Answered, Mapped, Refused, explaining
from app.files import PhotoInput, write_png
from app.scene import Request, Scene
from app.studio import Studio
from app.texts import say
from app.work import Job
from explainers import PhotoError, VisionModel, methods
from explainers.registry import find_method
from explainers.render.npz import npz_bytes
from explainers.sentence import Sentence

MODEL, METHODS = "embedded", "rollout"
"""What ``/explain`` takes where model and methods are left out or null."""


def add_endpoints(studio: Studio) -> None:
    """Add ``/explain`` and ``/methods``; their widgets are not on the page."""
    with gr.Column(visible=False):
        photo = PhotoInput(label="photo", image_mode=None)
        model = gr.Textbox(MODEL, label="model")
        names = gr.Textbox(METHODS, label="methods")
        target = gr.Textbox("", label="target")
        against = gr.Textbox("", label="against")
        answer = gr.JSON(label="answer")
        overlays = gr.Gallery(label="overlays", format="png")
        maps = gr.File(label="maps")
        button = gr.Button()
        table = gr.JSON(label="methods")
        listing = gr.Button()

    answering = guard(explain_photo, explain_error)

    def explain(
        photo: str | None,
        model: str | None,
        methods: str | None,
        target: str | None,
        against: str | None,
        request: gr.Request,
    ) -> Any:
        """Explain a photo: the model's five likeliest classes, an overlay a method, all maps.

        Args:
            photo: the photo's file
            model: a model that is on this machine
            methods: names of methods, separated by commas
            target: the class to explain, by index or label; empty for the likeliest
            against: a class to hold it against; empty for none
        """
        desk = studio.desks.of(request.session_hash or "")
        return answering("en", studio, desk, photo, model, methods, target, against)

    asked = [photo, model, names, target, against]
    given = [answer, overlays, maps]
    button.click(explain, asked, given, api_name="explain", concurrency_limit=4)
    listing.click(list_methods, None, table, api_name="methods")


def explain_photo(
    lang: str,
    studio: Studio,
    desk: Desk,
    photo: str | None,
    model: str | None,
    names: str | None,
    target: str | None,
    against: str | None,
) -> tuple[dict[str, Any], list[tuple[str, str]], str | None]:
    """The answer of ``/explain``: top five and reasons, (overlay, caption) pairs, an NPZ file.

    There is no file where there is no map: no method was named, or all were refused.
    """
    if photo is None:
        raise PhotoError(
            Sentence("api_no_photo", "No photo came; give a file as the first value, photo.")
        )
    model = (model or "").strip() or MODEL
    named = METHODS if names is None else names
    chosen = [find_method(name.strip()).name for name in named.split(",") if name.strip()]
    vit = next(
        (step for step in handlers.wait_for_model(studio, desk, model) if not _runs(step)), None
    )
    scene = handlers.take_photo(studio, desk, Scene(model=model), photo)
    if isinstance(vit, VisionModel):
        scene = replace(scene, target=_class(vit, target), against=_class(vit, against))
    answer: dict[str, Any] = {"top": [], "refused": {}}
    heats = []
    for event in explaining(studio, desk, Request(scene, tuple(chosen))):
        if isinstance(event, Answered):
            answer["top"] = [
                {"index": index, "label": label, "probability": probability}
                for index, label, probability in event.trace.top(5)
            ]
            answer["target"] = event.target
        elif isinstance(event, Mapped):
            heats.append(event.heat)
        elif isinstance(event, Refused):
            answer["refused"][event.name] = str(event.reason or say(lang, "unexpected"))
    pictures = [(write_png(heat.overlay(), desk.folder, heat.method), heat.title) for heat in heats]
    file = handlers.write(desk, heats, "maps.npz", npz_bytes(heats)) if heats else None
    return answer, pictures, file


def _runs(step: object) -> bool:
    return isinstance(step, Job)


def _class(vit: VisionModel, text: str | None) -> int | None:
    return vit.find_class(text) if text and text.strip() else None


def list_methods() -> list[dict[str, Any]]:
    """The explanation methods of this page: what each one is called and means."""
    return [
        {
            "name": method.name,
            "title": method.title,
            "meaning": method.meaning,
            "class_specific": method.class_specific,
            "signed": method.signed,
            "limits": method.limits,
            "paper": method.paper,
        }
        for method in methods().values()
    ]
