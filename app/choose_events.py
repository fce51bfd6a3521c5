"""Events above the tabs: a photo is given or taken away, a class is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr

from app import example_photos, handlers
from app.errors import explain_error, guard
from app.scene import Scene
from app.texts import say
from app.widgets import QUIET, Widgets


def connect(page: Widgets) -> None:
    """Let photo and class change the scene; all else follows the scene."""
    chooser, scene, lang = page.chooser, page.scene, page.lang

    def accept(lang: str, scene: Scene, path: Any, request: gr.Request) -> tuple[Any, Any]:
        """A photo that cannot be read leaves the page as it was, and says why."""
        desk = page.desk(request)
        try:
            scene = handlers.take_photo(page.studio, desk, scene, path)
        except Exception as error:
            gr.Warning(explain_error(lang, error), title=say(lang, "photo_refused"))
        return scene, scene.photo

    @guard
    def uploaded(lang: str, scene: Scene, path: str | None, request: gr.Request) -> tuple[Any, Any]:
        return (scene, path) if path is None else accept(lang, scene, path, request)

    @guard
    def picked(
        lang: str, scene: Scene, event: gr.EventData, request: gr.Request
    ) -> tuple[Any, Any]:
        return accept(lang, scene, example_photos.path(event._data.get("index")), request)

    def cleared(scene: Scene) -> Scene:
        return replace(scene, photo=None, target=None, against=None)

    def ranked(scene: Scene, model: str, ranks: list[int], event: gr.SelectData) -> Scene:
        return handlers.choose_rank(scene, model, ranks, event.index)

    photo, now = chooser.photo, [scene, page.model]
    photo.upload(uploaded, [lang, scene, photo], [scene, photo], **QUIET)
    chooser.examples.pick(picked, [lang, scene], [scene, photo], **QUIET)
    photo.clear(cleared, scene, scene, **QUIET)
    chooser.top.select(ranked, [*now, page.ranks], scene, **QUIET)
    chooser.target.input(handlers.choose_target, [*now, chooser.target], scene, **QUIET)
    chooser.against.input(handlers.choose_contrast, [*now, chooser.against], scene, **QUIET)
    lang.change(example_photos.html, lang, chooser.examples, **QUIET)
