"""Events of links and recipes: a view is told, and a view that was told is shown again."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from dataclasses import fields, replace
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from app import (
    attention_tab,
    compare_links,
    example_photos,
    handlers,
    link_values,
    links,
    model_events,
    settings,
)
from app.anatomy_tab import AnatomyTab, menu_value, step_of
from app.attention_tab import AttentionTab
from app.compare_tab import CompareTab
from app.desks import Desk
from app.errors import explain_error, guard
from app.files import adopt
from app.gathering import Updates
from app.link_fit import Fitted, fit
from app.link_panel import LinkPanel
from app.links import View
from app.save_events import HAND_OVER
from app.scene import Display, Scene, with_model
from app.texts import say, tell
from app.widgets import AT_ONCE, QUIET, Widgets
from app.work import Job
from explainers import ModelError, VisionModel, methods
from explainers.look import Look
from explainers.recipe import open_recipe
from explainers.sentence import Sentence

LARGEST = 64_000_000
"""Bytes of a file that a recipe is looked for in; maps of a large photo carry theirs too."""

_TAB = """(...given) => {
  const tab = document.querySelector('#vs-tabs button[role=tab][aria-selected=true]');
  const board = document.querySelector('#vs-attention .vs-board')?.view?.();
  given[given.length - 1] = JSON.stringify({ tab: tab?.dataset.tabId, board });
  return given;
}"""

_IN_ITS_LANGUAGE = "(lang, ...rest) => [window.vitscopeLanguage(), ...rest]"
"""At load the menu of languages may not have heard yet which one the browser wants."""

_COPY = """async (query) => {
  const link = location.origin + location.pathname + '?' + query;
  try { await navigator.clipboard.writeText(link); } catch { /* it stands in the field */ }
  return link;
}"""


def connect(
    page: Widgets,
    demo: gr.Blocks,
    panel: LinkPanel,
    tabs: gr.Tabs,
    anatomy: AnatomyTab,
    compare: CompareTab,
    attention: AttentionTab,
) -> None:
    """Let the buttons tell the view, and an address or a file restore it."""
    compared = list(compare_links.fields(compare).values())
    asked = [*page.asked, *compared, anatomy.steps, panel.address]

    def current(request: gr.Request, values: tuple[Any, ...]) -> View:
        *rest, step, told = values
        tab, board = page_state(told)
        wish, desk = page.request(tuple(rest[: -len(compared)])), page.desk(request)
        side_by_side = compare_links.told(compare, rest[-len(compared) :])
        photo = None
        if wish.scene.photo is not None:
            photo = example_photos.name_of(page.studio.photo(desk, wish.scene.photo))
        vit = page.studio.models.ready(wish.scene.model)
        return links.view_of(wish, tab, step_of(step), photo, vit, side_by_side, board)

    def own(view: View, values: tuple[Any, ...]) -> bool:
        """Whether the photo is the visitor's own, which is never in what is told."""
        return view.photo is None and values[0].photo is not None

    @guard
    def copy(lang: str, request: gr.Request, *values: Any) -> tuple[Any, str]:
        view = current(request, values)
        shown = gr.update(value=view.query(), visible=True)
        key = "link_copied_own" if own(view, values) else "link_copied"
        return shown, lines([say(lang, key)])

    @guard
    def save(lang: str, request: gr.Request, *values: Any) -> tuple[str, str]:
        view = current(request, values)
        path = page.desk(request).folder / (
            f"{view.photo}.view.json" if view.photo else "view.json"
        )
        path.write_text(view.to_json(), encoding="utf-8")
        key = "link_saved_own" if own(view, values) else "link_saved"
        return str(path), lines([say(lang, key)])

    made = panel.copy.click(copy, asked, [panel.address, panel.note], js=_TAB, **QUIET)
    made.success(None, panel.address, panel.address, js=_COPY, api_visibility="private")
    saved = panel.save.click(save, asked, [page.file, panel.note], js=_TAB, **QUIET)
    saved.success(None, page.file, None, js=HAND_OVER, api_visibility="private")

    @guard
    def follow(lang: str, scene: Scene, model: str, request: gr.Request) -> Iterator[Updates]:
        raw = links.from_query(dict(request.query_params))
        yield {panel.note: gr.skip()}
        if raw:
            yield from restoring(lang, page.desk(request), raw, [], scene, model)

    @guard
    def opened(
        lang: str, scene: Scene, model: str, path: str, request: gr.Request
    ) -> Iterator[Updates]:
        desk = page.desk(request)
        raw, problems = found_in(adopt(path, desk.folder))
        yield from restoring(lang, desk, raw, problems, scene, model)

    def restoring(
        lang: str,
        desk: Desk,
        raw: links.Raw,
        problems: list[Sentence],
        scene: Scene,
        model: str,
    ) -> Iterator[Updates]:
        """The tab at once, all else when the model is there; the maps follow last of all."""
        view, refused = links.read(raw)
        notes = [tell(lang, sentence) for sentence in (*problems, *refused)]
        yield {
            panel.note: lines(notes),
            tabs: gr.skip() if view.tab is None else gr.Tabs(selected=view.tab),
            anatomy.steps: gr.skip() if view.step is None else menu_value(view.step),
            page.chooser.model: view.model or gr.skip(),
            **compare_links.updates(compare, view.compare),
        }
        vit: VisionModel | None = None
        wanted = view.model or model
        try:
            vit = yield from model_there(lang, desk, wanted)
        except ModelError as error:
            notes.append(explain_error(lang, error))
            if view.target is not None:
                notes.append(say(lang, "link_other_model", name=wanted))
            try:
                vit = yield from model_there(lang, desk, model)
            except ModelError:
                yield model_events.not_had(page, lang, model, wanted, error)
                yield {panel.note: lines(notes)}
            if vit is not None:
                yield model_events.not_had(page, lang, model, wanted, error)
            view, wanted = replace(view, target=None, against=None), model
        else:
            if vit is not None:
                yield model_events.in_use(page, lang, wanted, vit)
        if vit is None:
            return  # there is none, or the visitor has turned to another one meanwhile
        fitted, more = fit(view, vit)
        notes += [tell(lang, sentence) for sentence in more]
        now = with_model(scene, wanted)
        if view.photo is not None:
            path = example_photos.names()[view.photo]
            now = handlers.choose_photo(page.studio, desk, now, path) or now
        if now.photo is not None:
            now = replace(now, target=fitted.target, against=fitted.against)
        elif fitted.target is not None or fitted.against is not None:
            notes.append(say(lang, "link_class_left"))
        if view.look is not None:
            try:
                now = looking(desk, vit, now, view.look)
            except ValueError as error:
                notes.append(explain_error(lang, error))
        desk.ready_model, desk.restored = wanted, now
        desk.board = dict(fitted.board) or None
        yield {
            panel.note: lines(notes),
            **model_events.fit_settings(page, desk, wanted, vit),
            **ticked(page, view, vit, fitted),
            page.chooser.photo: now.photo,
            page.chooser.look.kind: now.look.kind,
            page.chooser.look.side: side(now.look),
        }

    def settle(nudge: int, request: gr.Request) -> tuple[Any, ...]:
        """The scene changes once the page has all else: the maps that follow it read that."""
        desk = page.desk(request)
        now, desk.restored = desk.restored, None
        if now is None:
            return (gr.skip(),) * 4
        board = gr.skip() if desk.board is None else attention_tab.stale(time.monotonic_ns())
        return now, now.model, nudge + 1, board

    def model_there(
        lang: str, desk: Desk, name: str
    ) -> Generator[Updates, None, VisionModel | None]:
        """The model, once it is loaded; None where the visitor has chosen another meanwhile."""
        desk.model_turn += 1  # what was loading for this visitor is not wanted any more
        desk.wanted_model = name
        try:
            for step in handlers.wait_for_model(page.studio, desk, name):
                if desk.wanted_model != name:
                    return None
                if not isinstance(step, Job):
                    return step
                yield model_events.loading(page, lang, name, step)
        except ModelError:
            desk.wanted_model = None
            raise
        return None

    def looking(desk: Desk, vit: VisionModel, scene: Scene, look: Look) -> Scene:
        """The scene with another size of look. ModelError where it cannot be taken."""
        if scene.photo is not None and look.kind != "own":
            photo = page.studio.photo(desk, scene.photo)
            page.studio.forecast(vit, photo, replace(scene, look=look))
        return replace(scene, look=look)

    above, tab = page.chooser, page.tab
    outputs = [
        *(panel.note, tabs, anatomy.steps),
        *(above.photo, above.look.kind, above.look.side, *model_events.touched(page)),
        *(*tab.groups.values(), *tab.display, *compared),
    ]
    inputs = [page.lang, page.scene, page.model]
    settled = [page.scene, page.model, page.nudge, attention.board]
    for event in (
        demo.load(follow, inputs, outputs, js=_IN_ITS_LANGUAGE, **AT_ONCE),
        panel.open.upload(opened, [*inputs, panel.open], outputs, **AT_ONCE),
    ):
        event.success(settle, page.nudge, settled, **AT_ONCE)


def page_state(told: Any) -> tuple[Any, dict[str, Any]]:
    """The tab that is open and what the Attention tab looks at, as the page's script told."""
    try:
        found = json.loads(told)
        return found["tab"], link_values.board(found.get("board"), [])
    except (TypeError, ValueError, KeyError, AttributeError):
        return None, {}


def found_in(path: Path) -> tuple[links.Raw, list[Sentence]]:
    """The view in a file: of a view, or of maps. ValueError where there is none in it."""
    if path.stat().st_size > LARGEST:
        raise ValueError(links.no_view(path))
    if path.suffix.lower() == ".json":
        raw = links.read_file(path)
        if raw is not None:
            return raw, []
    examples = {example_photos.digest(name): name for name in example_photos.names()}
    return links.from_recipe(open_recipe(path), examples)


def ticked(page: Widgets, view: View, vit: VisionModel, fitted: Fitted) -> Updates:
    """The methods, their settings and the display options of a view; none where it names none."""
    tab, table, updates = page.tab, methods(), dict[Any, Any]()
    if view.methods is not None:
        for question, group in tab.groups.items():
            chosen = [name for name in view.methods if table[name].question == question]
            updates[group] = gr.update(value=chosen)
        usual = settings.refresh(page.t, table, vit)
        updates |= dict(zip(tab.controls.values(), usual, strict=True))
    for name, given in fitted.parameters.items():
        for setting, value in given.items():
            control = tab.controls[name, setting]
            shown = str(value) if isinstance(control, gr.Dropdown) else value
            updates[control] = {**updates.get(control, gr.update()), "value": shown}
    names = [field.name for field in fields(Display)]
    for name, widget in zip(names, tab.display, strict=True):
        if name in view.display:
            updates[widget] = gr.update(value=view.display[name])
    return updates


def side(look: Look) -> dict[str, Any]:
    """The slider of a look's long side."""
    value = {} if look.long_side is None else {"value": look.long_side}
    return gr.update(visible=look.kind != "own", **value)


def lines(notes: list[str]) -> str:
    """Sentences as the page shows them, each once."""
    return "".join(f"<p>{escape(note)}</p>" for note in dict.fromkeys(notes))
