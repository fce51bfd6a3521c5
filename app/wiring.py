"""Which event of which widget calls what, and where the answer goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import Any

import gradio as gr

from app import cards, drawing, example_photos, handlers, inside_tab, settings
from app.choose import Chooser
from app.errors import explain_error, guard, known_sentence
from app.explain_tab import ExplainTab
from app.explaining import explaining
from app.inside_tab import InsideTab
from app.scene import Display, Request, Scene
from app.showing import Showing, Updates
from app.studio import Studio
from app.texts import say
from app.work import Job
from explainers import methods
from explainers.render.export import png_bytes
from explainers.render.npz import npz_bytes

SETTLE = 0.15
"""Seconds a moving slider is given before the maps follow it."""

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
"""Events inside the page: their progress is painted by the page itself."""


class Wiring:
    """The page's events. ``lang`` is the first input of every one that may fail."""

    def __init__(
        self,
        studio: Studio,
        t: gr.I18n,
        lang: gr.Dropdown,
        chooser: Chooser,
        tab: ExplainTab,
        inside: InsideTab,
        file: gr.DownloadButton,
    ) -> None:
        self.studio, self.t, self.lang = studio, t, lang
        self.chooser, self.tab, self.inside, self.file = chooser, tab, inside, file
        self.scene = gr.State(Scene(model=studio.default_model))
        self.ranks = gr.State([])
        self.nudge = gr.State(0)
        """Counts the pauses in moving a slider."""
        self.asked = [
            lang,
            self.scene,
            *tab.groups.values(),
            *tab.display,
            *tab.controls.values(),
        ]
        self.shown: list[Any] = [
            *(chooser.photo_note, chooser.class_note),
            *(chooser.top, chooser.target, chooser.against, self.ranks),
            *(tab.status, tab.hint, tab.shape, tab.cancel, tab.save_all),
            *tab.setting_boxes.values(),
        ]
        for card in tab.cards.values():
            self.shown += [card.box, card.image, card.text, card.save]
            self.shown += [card.baseline, card.baseline_box] if card.baseline else []

    def connect(self, demo: gr.Blocks, places: dict[str, gr.Tab]) -> None:
        """Attach everything; ``places``: the tabs by name."""
        self._explaining()
        self._choosing()
        self._models(demo)
        self._saving()
        self._inside(places["inside"])
        self._tab_names(places)
        demo.unload(self._leave)

    def request(self, values: tuple[Any, ...]) -> Request:
        """The inputs after the language as one request."""
        tab, table = self.tab, methods()
        scene, rest = values[0], list(values[1:])
        groups = [rest.pop(0) or [] for _ in tab.groups]
        drawn = Display(*(rest.pop(0) for _ in tab.display))
        ticked = {name for group in groups for name in group}
        return Request(
            scene=scene,
            methods=tuple(name for name in table if name in ticked),
            parameters=settings.read(table, rest),
            display=drawn,
        )

    # -- maps ----------------------------------------------------------------------------

    def _explaining(self) -> None:
        tab = self.tab

        @guard
        def run(lang: str, request: gr.Request, *values: Any) -> Iterator[Updates]:
            desk = self.studio.desks.of(request.session_hash or "")
            asked = self.request(values)
            showing = Showing(lang, asked, desk, self.chooser, tab, self.ranks)
            yield showing.begin()
            try:
                for event in explaining(self.studio, desk, asked):
                    updates = showing.updates(event)
                    if updates:
                        yield updates
            except Exception as error:
                yield showing.failed(error)

        changed = [self.scene.change, self.nudge.change, tab.go.click, self.lang.change]
        changed += [group.input for group in tab.groups.values()]
        for widget in (*tab.display, *tab.controls.values()):
            if isinstance(widget, gr.Slider):
                widget.input(_settle, self.nudge, self.nudge, trigger_mode="always_last", **QUIET)
            else:
                changed.append(widget.input)
        gr.on(
            changed,
            run,
            self.asked,
            self.shown,
            trigger_mode="multiple",
            concurrency_limit=32,
            **QUIET,
        )

        def cancel(request: gr.Request) -> None:
            self.studio.desks.of(request.session_hash or "").stop()

        tab.cancel.click(cancel, None, None, queue=False, **QUIET)

    # -- photo and class -------------------------------------------------------------------

    def _choosing(self) -> None:
        chooser, scene, lang = self.chooser, self.scene, self.lang

        def accept(lang: str, scene: Scene, path: Any, request: gr.Request) -> tuple[Any, Any]:
            """A photo that cannot be read leaves the page as it was, and says why."""
            desk = self.studio.desks.of(request.session_hash or "")
            try:
                scene = handlers.take_photo(self.studio, desk, scene, path)
            except Exception as error:
                gr.Warning(explain_error(lang, error), title=say(lang, "photo_refused"))
            return scene, scene.photo

        @guard
        def uploaded(
            lang: str, scene: Scene, path: str | None, request: gr.Request
        ) -> tuple[Any, Any]:
            return (scene, path) if path is None else accept(lang, scene, path, request)

        @guard
        def picked(
            lang: str, scene: Scene, event: gr.EventData, request: gr.Request
        ) -> tuple[Any, Any]:
            return accept(lang, scene, example_photos.path(event._data.get("index")), request)

        def cleared(scene: Scene) -> Scene:
            return replace(scene, photo=None, target=None, against=None)

        def ranked(scene: Scene, ranks: list[int], event: gr.SelectData) -> Scene:
            return handlers.choose_rank(scene, ranks, event.index)

        def contrasted(scene: Scene, against: int | None) -> Scene:
            return replace(scene, against=against)

        photo = chooser.photo
        photo.upload(uploaded, [lang, scene, photo], [scene, photo], **QUIET)
        chooser.examples.pick(picked, [lang, scene], [scene, photo], **QUIET)
        photo.clear(cleared, scene, scene, **QUIET)
        chooser.top.select(ranked, [scene, self.ranks], scene, **QUIET)
        chooser.target.input(handlers.choose_target, [scene, chooser.target], scene, **QUIET)
        chooser.against.input(contrasted, [scene, chooser.against], scene, **QUIET)
        lang.change(example_photos.html, lang, chooser.examples, **QUIET)

    # -- models ------------------------------------------------------------------------------

    def _models(self, demo: gr.Blocks) -> None:
        chooser, lang = self.chooser, self.lang
        controls = list(self.tab.controls.values())
        buttons = [chooser.download, chooser.halt]
        outputs = [self.scene, chooser.model, chooser.model_note, *buttons, *controls]

        def load(lang: str, request: gr.Request, scene: Scene, name: str, download: bool) -> Any:
            desk = self.studio.desks.of(request.session_hash or "")
            hidden = {button: gr.update(visible=False) for button in buttons}
            try:
                for step in handlers.use_model(self.studio, desk, name, download):
                    if isinstance(step, Job):
                        key = "status_download" if download else "status_model"
                        text = f"<p>{escape(say(lang, key, name=name))}</p>"
                        yield {chooser.model_note: text + cards.bar(step.share)}
                        continue
                    updates: Updates = {
                        self.scene: handlers.with_model(scene, name),
                        chooser.model_note: handlers.model_facts(lang, step),
                        **hidden,
                    }
                    if desk.settings_of != name:
                        desk.settings_of = name
                        fitted = settings.refresh(self.t, methods(), step)
                        updates |= dict(zip(controls, fitted, strict=True))
                    yield updates
            except Exception as error:
                reason = explain_error(lang, error)
                note = f"<p class='vs-refused'>{escape(reason)}</p>"
                sentence = known_sentence(error)
                if sentence is not None and sentence.key == "model_not_here":
                    text = handlers.download_text(lang, name)
                    offer = {chooser.download: gr.update(value=text, visible=True)}
                    yield {chooser.model_note: note, **hidden, **offer}
                    return
                gr.Warning(reason, title=say(lang, "model_refused"))
                menu = {chooser.model: gr.update(value=scene.model)}
                yield {chooser.model_note: note, **hidden, **menu}

        @guard
        def chosen(lang: str, request: gr.Request, scene: Scene, name: Any) -> Iterator[Updates]:
            wanted = str(name or "").strip() or scene.model
            yield from load(lang, request, scene, wanted, False)

        @guard
        def fetched(lang: str, request: gr.Request, scene: Scene, name: Any) -> Iterator[Updates]:
            yield {
                chooser.download: gr.update(visible=False),
                chooser.halt: gr.update(visible=True),
            }
            yield from load(lang, request, scene, str(name), True)

        @guard
        def halted(lang: str, request: gr.Request) -> Updates:
            self.studio.desks.of(request.session_hash or "").model_turn += 1
            note = f"<p>{escape(say(lang, 'download_halted'))}</p>"
            return {
                chooser.model_note: note,
                chooser.halt: gr.update(visible=False),
                chooser.download: gr.update(visible=True),
            }

        inputs = [lang, self.scene, chooser.model]
        common: dict[str, Any] = {"concurrency_limit": 32, "trigger_mode": "multiple", **QUIET}
        gr.on([demo.load, lang.change, chooser.model.input], chosen, inputs, outputs, **common)
        chooser.download.click(fetched, inputs, outputs, **common)
        chooser.halt.click(halted, lang, outputs, queue=False, **QUIET)

    # -- files -------------------------------------------------------------------------------

    def _saving(self) -> None:
        @guard
        def save_all(lang: str, request: gr.Request, *values: Any) -> str:
            desk = self.studio.desks.of(request.session_hash or "")
            heats = handlers.maps_of(self.studio, desk, self.request(values))
            return handlers.write(desk, heats, "maps.npz", npz_bytes(heats))

        def saver(name: str) -> Any:
            @guard
            def save(lang: str, request: gr.Request, *values: Any) -> str:
                desk = self.studio.desks.of(request.session_hash or "")
                asked = self.request(values)
                heats = handlers.maps_of(self.studio, desk, asked)
                heat = next((heat for heat in heats if heat.method == name), None)
                if heat is None:
                    raise ValueError(handlers.nothing_to_save())
                picture = png_bytes(heat, **drawing.options(heat, asked.display, heats))
                return handlers.write(desk, heats, f"{name}.png", picture)

            return save

        buttons = [(self.tab.save_all, save_all)]
        buttons += [(card.save, saver(name)) for name, card in self.tab.cards.items()]
        for button, handler in buttons:
            made = button.click(handler, self.asked, self.file, **QUIET)
            made.success(None, self.file, None, js=_HAND_OVER, api_visibility="private")

    # -- other tabs, leaving -------------------------------------------------------------------

    def _inside(self, place: gr.Tab) -> None:
        inside, studio = self.inside, self.studio

        @guard
        def show(lang: str, request: gr.Request, scene: Scene, count: int) -> Any:
            desk, vit = studio.desks.of(request.session_hash or ""), None
            if desk.inside_of != (scene.model, lang):
                vit = studio.models.ready(scene.model)
            if vit is None:
                return [gr.skip()] * len(inside.outputs())
            desk.inside_of = (scene.model, lang)
            return inside_tab.show(lang, vit, count)

        @guard
        def recount(lang: str, scene: Scene, count: int) -> Any:
            vit = studio.models.ready(scene.model)
            return [gr.skip()] * 2 if vit is None else inside_tab.components(lang, vit, count)

        common: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}
        inputs = [self.lang, self.scene, inside.count]
        place.select(show, inputs, inside.outputs(), **common)
        inside.count.input(
            recount,
            inputs,
            [inside.components, inside.components_text],
            trigger_mode="always_last",
            **common,
        )

    def _tab_names(self, places: dict[str, gr.Tab]) -> None:
        """The names of tabs not yet opened do not follow the language by themselves."""

        def rename(lang: str) -> list[Any]:
            return [gr.update(label=say(lang, f"tab_{name}")) for name in places]

        self.lang.change(rename, self.lang, list(places.values()), **QUIET)

    def _leave(self, request: gr.Request) -> None:
        self.studio.desks.leave(request.session_hash or "")


_HAND_OVER = """(file) => {
  if (!file) return;
  const link = document.createElement('a');
  link.href = file.url; link.download = file.orig_name || '';
  document.body.append(link); link.click(); link.remove();
}"""


def _settle(count: int) -> int:
    """A slider is moving: wait a moment, so that its last place is drawn rather than all."""
    time.sleep(SETTLE)
    return count + 1
