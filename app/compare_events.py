"""Events of the Compare tab: maps are made, two are picked, files are written."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from app import compare_answers, compare_names, drawing, example_photos, figure_events, handlers
from app.compare_tab import CompareTab, example_choices
from app.comparing import comparing
from app.comparison import Asked, Comparison, check
from app.desks import Desk
from app.errors import explain_error, guard, toast
from app.save_events import HAND_OVER
from app.scene import Display, Request, Scene
from app.texts import say
from app.widgets import AT_ONCE, QUIET, Widgets
from explainers.recipe import recipe_of
from explainers.render.npz import npz_bytes
from explainers.render.plate import Panel

EVERY = 2.0
"""Seconds between two looks at the table: it goes as a whole each time."""

BEAT = 0.5
"""Seconds between two looks at how far it is: a slow browser must not fall behind."""


def connect(page: Widgets, tab: CompareTab, place: gr.Tab) -> None:
    """Attach the events; ``place``: the tab itself."""
    picked = gr.State([])
    studio = page.studio
    inputs = [*page.asked, *tab.given]
    shown = [tab.table, tab.results, tab.left, tab.right, picked, tab.slide, tab.signed, tab.agreed]
    outputs = [tab.status, tab.cancel, *shown]

    def read(values: tuple[Any, ...]) -> tuple[Request, Display, list[Any]]:
        """The request as Explain would make it, how maps are drawn here, the tab's own values."""
        count = len(tab.given)
        request = page.request(values[:-count])
        given = list(values[-count:])
        extent = "shared" if given[-1] == "shared" else "own"
        return request, replace(request.display, extent=extent), given

    @guard
    def run(lang: str, request: gr.Request, *values: Any) -> Iterator[list[Any]]:
        desk = page.desk(request)
        wish, display, given = read(values)
        asked = ask(page, desk, lang, wish, given)
        nothing = [gr.skip()] * len(shown)
        told, beat, done = 0.0, 0.0, -1
        found: Comparison | None = None
        try:
            check(asked)
            for found in comparing(studio, desk, asked):
                ready, now = sum(not cell.waiting for cell in found.cells), time.monotonic()
                if now - beat < BEAT:
                    continue
                beat = now
                status = compare_answers.status(lang, found)
                if ready == done or now - told < EVERY:
                    yield [status, gr.update(interactive=True), *nothing]
                    continue
                told, done = now, ready
                table = compare_answers.table(lang, found, display, [])
                hidden = gr.update(visible=False)  # what stands there is of another comparison
                yield [status, gr.update(interactive=True), table, hidden, *nothing[2:]]
        except ValueError as error:
            text = f"<p class='vs-refused'>{escape(explain_error(lang, error))}</p>"
            yield [text, gr.update(interactive=False), *nothing]
            return
        if found is not None and not any(cell.waiting for cell in found.cells):
            status = compare_answers.status(lang, found)
            yield [status, gr.update(interactive=False), *everything(lang, found, display, None)]

    @guard
    def stop(lang: str, request: gr.Request, *values: Any) -> list[Any]:
        desk = page.desk(request)
        desk.compare_turn += 1
        found: Comparison | None = studio.store.get(desk.owner, "comparison")
        status = f"<p>{escape(say(lang, 'compare_stopped'))}</p>"
        if found is None:
            return [status, gr.update(interactive=False), *[gr.skip()] * len(shown)]
        _, display, _ = read(values)
        return [status, gr.update(interactive=False), *everything(lang, found, display, None)]

    def everything(
        lang: str, found: Comparison, display: Display, pair: list[int] | None
    ) -> list[Any]:
        """The updates of ``shown``; ``pair``: the two maps under the slider, None for the first."""
        choices = compare_names.choices(lang, found)
        known = [place for _, place in choices]
        wanted = compare_names.first_pair(found) if pair is None else pair
        pair = [place for place in wanted if place in known]
        sides = [gr.update(choices=choices, value=place) for place in [*pair, None, None][:2]]
        return [
            compare_answers.table(lang, found, display, pair),
            gr.update(visible=bool(known)),
            *sides,
            pair,
            compare_answers.pair(lang, found, display, pair),
            compare_answers.signed(lang, found, display, pair),
            compare_answers.agreements(lang, found, display),
        ]

    @guard
    def redraw(lang: str, request: gr.Request, pair: list[int], *values: Any) -> list[Any]:
        """The same maps in another language or drawn in another way; no model runs."""
        found: Comparison | None = studio.store.get(page.desk(request).owner, "comparison")
        if found is None:
            return [gr.skip()] * len(shown)
        _, display, _ = read(values)
        return everything(lang, found, display, pair or None)

    def choose(
        lang: str, request: gr.Request, pair: list[int], values: tuple[Any, ...]
    ) -> list[Any]:
        found: Comparison | None = studio.store.get(page.desk(request).owner, "comparison")
        if found is None:
            gr.Warning(escape(say(lang, "compare_gone")))
            return [gr.skip()] * len(shown)
        _, display, _ = read(values)
        updates = everything(lang, found, display, pair)
        updates[-1] = gr.skip()  # the agreement is of all maps
        return updates

    @guard
    def pick(
        lang: str, event: gr.EventData, request: gr.Request, pair: list[int], *values: Any
    ) -> list[Any]:
        """The last two maps that were clicked."""
        cell = event._data.get("cell")
        if not isinstance(cell, int):
            return [gr.skip()] * len(shown)
        other = [place for place in pair if place != cell][-1:]
        return choose(lang, request, [*other, cell], values)

    @guard
    def aside(lang: str, request: gr.Request, left: Any, right: Any, *values: Any) -> list[Any]:
        pair = [place for place in (left, right) if isinstance(place, int)]
        return choose(lang, request, pair, values)

    def current(request: gr.Request) -> Comparison:
        found: Comparison | None = studio.store.get(page.desk(request).owner, "comparison")
        if found is None or not found.heats:
            raise ValueError(handlers.nothing_to_save())
        return found

    @guard
    def numbers(lang: str, request: gr.Request) -> str:
        heats = current(request).heats
        return handlers.write(page.desk(request), heats, "compared.npz", npz_bytes(heats))

    @guard
    def recipe(lang: str, request: gr.Request) -> str:
        heats = current(request).heats
        contents = recipe_of(heats).to_json().encode()
        return handlers.write(page.desk(request), heats, "compared.recipe.json", contents)

    def panels(request: gr.Request, values: tuple[Any, ...], with_photos: bool) -> list[Panel]:
        _, display, _ = read(values)
        return panels_of(current(request), display, with_photos)

    tab.go.click(run, inputs, outputs, **AT_ONCE)
    tab.cancel.click(stop, inputs, outputs, queue=False, **QUIET)
    gr.on(
        [tab.scale.input, page.lang.change, place.select],
        redraw,
        [page.lang, picked, *inputs[1:]],
        shown,
        **AT_ONCE,
    )
    tab.table.pick(pick, [page.lang, picked, *inputs[1:]], shown, **AT_ONCE)
    gr.on(
        [tab.left.input, tab.right.input],
        aside,
        [page.lang, tab.left, tab.right, *inputs[1:]],
        shown,
        **AT_ONCE,
    )
    for button, handler in ((tab.numbers, numbers), (tab.recipe, recipe)):
        made = button.click(handler, page.lang, page.file, **QUIET)
        made.success(None, page.file, None, js=HAND_OVER, api_visibility="private")
    page.lang.change(
        lambda lang: gr.update(choices=example_choices(lang)), page.lang, tab.examples, **QUIET
    )
    figure_events.connect(page, tab.figure, inputs[1:], panels)


def ask(page: Widgets, desk: Desk, lang: str, wish: Request, given: list[Any]) -> Asked:
    """What the controls ask for: where they are empty, the photo and the model above."""
    models, names, aims, examples, files, _ = given
    sources = [str(example_photos.path(number)) for number in examples or []]
    sources += [str(path) for path in files or []]
    photos = [] if wish.scene.photo is None else [wish.scene.photo]
    for source in sources:
        try:
            photos.append(_taken(page, desk, source))
        except Exception as error:
            gr.Warning(toast(lang, error), title=say(lang, "photo_refused"))
    return Asked(
        scene=wish.scene,
        photos=tuple(dict.fromkeys(photos)),
        models=tuple(dict.fromkeys(str(name).strip() for name in models or [wish.scene.model])),
        methods=tuple(dict.fromkeys(names or [])),
        classes=tuple(dict.fromkeys(str(aim) for aim in aims or [])),
        parameters=wish.parameters,
    )


def _taken(page: Widgets, desk: Desk, source: str) -> str:
    """The visitor's own copy of a photo, made at the first time that it is compared."""
    store, key = page.studio.store, ("compared file", source)
    known: str | None = store.get(desk.owner, key)
    if known is None or not Path(known).is_file():
        known = str(handlers.take_photo(page.studio, desk, Scene(), source).photo)
        store.put(desk.owner, key, known, 200)
    return known


def panels_of(found: Comparison, display: Display, with_photos: bool) -> list[Panel]:
    """Photo by photo: the photo itself, then its maps in the order of the table."""
    panels = []
    several = len(found.asked.models) > 1
    for number, photo in enumerate(found.photos):
        cells = [cell for cell in found.cells if cell.photo == number and cell.heat is not None]
        if photo is not None and cells and with_photos:
            panels.append(Panel(photo, photo.name))
        for cell in cells:
            if cell.heat is not None:
                together = compare_answers.sharing(found, cell)
                options = drawing.options(cell.heat, display, together)
                title = figure_events.title(cell.heat, *([cell.model] if several else []))
                panels.append(Panel(cell.heat, title, options))
    return panels
