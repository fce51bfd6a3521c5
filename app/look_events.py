"""Events of the size of the look: what it costs is told live, and it is taken if it can be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr

from app import look_control
from app.errors import explain_error, guard
from app.gathering import Updates
from app.look_control import LONGEST, SHORTEST, STEP
from app.scene import Scene, with_model
from app.studio import Studio
from app.widgets import AT_ONCE, QUIET, Widgets
from explainers import Photo, VisionModel
from explainers.look import Look
from explainers.window_places import windowed_long_side


def connect(page: Widgets) -> None:
    """Let the control change the scene; photo, model and language renew what is told."""
    control, studio = page.chooser.look, page.studio

    @guard
    def chosen(
        lang: str, scene: Scene, model: str, kind: str, side: int, request: gr.Request
    ) -> Updates:
        """Another kind of look: for windows, first as many as make two along the short side."""
        scene = with_model(scene, model)
        updates: Updates = {control.side: gr.update(visible=kind != "own")}
        if kind == "windows":
            found = seen(studio, page, scene, request)
            if found is not None:
                side = fitting(windowed_long_side(found[0], found[1], None))
                updates[control.side] = gr.update(visible=True, value=side)
        return updates | take(lang, scene, kind, side, request)

    @guard
    def resized(
        lang: str, scene: Scene, model: str, kind: str, side: int, request: gr.Request
    ) -> Updates:
        return take(lang, with_model(scene, model), kind, side, request)

    def take(lang: str, scene: Scene, kind: str, side: int, request: gr.Request) -> Updates:
        """The scene with the look; as it was, with the reason, where the look cannot be taken."""
        look = look_of(kind, side)
        try:
            note = costs(lang, replace(scene, look=look), request)
        except ValueError as error:
            return {control.note: look_control.refused(explain_error(lang, error))}
        return {page.scene: replace(scene, look=look), control.note: note}

    def tell(lang: str, scene: Scene, model: str, kind: str, side: int, request: gr.Request) -> str:
        scene = replace(with_model(scene, model), look=look_of(kind, side))
        if kind == "own" and not studio.paced(scene.model):
            return ""  # nobody asked yet, and measuring would hold the first maps up
        try:
            return costs(lang, scene, request)
        except ValueError as error:
            return look_control.refused(explain_error(lang, error))

    def costs(lang: str, scene: Scene, request: gr.Request) -> str:
        """The note under the control; empty without a photo or while the model is loading."""
        found = seen(studio, page, scene, request)
        if found is None:
            return ""
        forecast = studio.forecast(*found, scene)
        return look_control.told(lang, forecast, scene.look)

    inputs = [page.lang, page.scene, page.model, control.kind, control.side]
    outputs = [page.scene, control.side, control.note]
    control.kind.input(chosen, inputs, outputs, **AT_ONCE)
    control.side.release(resized, inputs, outputs, **AT_ONCE)
    live: dict[str, Any] = {**QUIET, "trigger_mode": "always_last"}
    renewed = [page.scene.change, page.model.change, page.lang.change, control.side.change]
    gr.on(renewed, guard(tell), inputs, control.note, **live)


def look_of(kind: object, side: object) -> Look:
    """The look of the control's values, which anybody may have sent."""
    if kind not in ("whole", "windows"):
        return Look()
    number = side if isinstance(side, (int, float)) else look_control.USUAL
    return Look("whole" if kind == "whole" else "windows", fitting(number))


def fitting(side: float) -> int:
    """A long side that the slider can show."""
    return int(min(max(round(side / STEP) * STEP, SHORTEST), LONGEST))


def seen(
    studio: Studio, page: Widgets, scene: Scene, request: gr.Request
) -> tuple[VisionModel, Photo] | None:
    """The model and the photo of a scene; None where one of them is not there yet."""
    vit = studio.models.ready(scene.model)
    if vit is None or scene.photo is None:
        return None
    return vit, studio.photo(page.desk(request), scene.photo)
