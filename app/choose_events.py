"""Events above the tabs: a photo is given or taken away, a class is chosen."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import example_photos, handlers
from app.errors import guard, toast
from app.scene import Scene
from app.texts import say
from app.widgets import AT_ONCE, QUIET, Widgets


def connect(page: Widgets) -> None:
    """Let photo and class change the scene; all else follows the scene."""
    chooser, scene, lang = page.chooser, page.scene, page.lang

    def accept(lang: str, scene: Scene, path: Any, request: gr.Request) -> tuple[Any, Any]:
        """A photo that cannot be read leaves the page as it was, and says why; so does,
        without a word, one that is read only after another was chosen."""
        desk = page.desk(request)
        try:
            taken = handlers.choose_photo(page.studio, desk, scene, path)
        except Exception as error:
            gr.Warning(toast(lang, error), title=say(lang, "photo_refused"))
            return scene, scene.photo
        return (gr.skip(), gr.skip()) if taken is None else (taken, taken.photo)

    @guard
    def uploaded(lang: str, scene: Scene, path: str | None, request: gr.Request) -> tuple[Any, Any]:
        return (scene, path) if path is None else accept(lang, scene, path, request)

    @guard
    def picked(
        lang: str, scene: Scene, event: gr.EventData, request: gr.Request
    ) -> tuple[Any, Any]:
        return accept(lang, scene, example_photos.path(event._data.get("index")), request)

    def cleared(scene: Scene, request: gr.Request) -> Scene:
        return handlers.choose_no_photo(page.desk(request), scene)

    def ranked(scene: Scene, model: str, ranks: list[int], event: gr.EventData) -> Scene:
        return handlers.choose_rank(scene, model, ranks, event._data.get("index"))

    photo, now = chooser.photo, [scene, page.model]
    photo.upload(uploaded, [lang, scene, photo], [scene, photo], **AT_ONCE)
    chooser.examples.pick(picked, [lang, scene], [scene, photo], **AT_ONCE)
    photo.clear(cleared, scene, scene, **AT_ONCE)
    chooser.top.pick(ranked, [*now, page.ranks], scene, **QUIET)
    chooser.target.input(handlers.choose_target, [*now, chooser.target], scene, **QUIET)
    chooser.against.input(handlers.choose_contrast, [*now, chooser.against], scene, **QUIET)
    lang.change(example_photos.html, lang, chooser.examples, **QUIET)
