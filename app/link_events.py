"""Events of links and recipes: a view is told, and a view that was told is shown again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from app import (
    attention_tab,
    compare_links,
    example_photos,
    link_reading,
    link_values,
    links,
)
from app.anatomy_tab import AnatomyTab, step_of
from app.attention_tab import AttentionTab
from app.compare_tab import CompareTab
from app.errors import guard
from app.files import adopt, unpacked_size
from app.gathering import Updates
from app.link_panel import LinkPanel
from app.link_values import PLACE
from app.links import View
from app.restoring import Restorer, lines
from app.save_events import HAND_OVER
from app.scene import Scene
from app.texts import say
from app.widgets import AT_ONCE, QUIET, Widgets
from explainers.recipe import open_recipe
from explainers.sentence import Sentence

LARGEST = 64_000_000
"""Bytes of a file that a recipe is looked for in, once unpacked; maps of a large photo carry
theirs too."""

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
    restorer = Restorer(page, panel, tabs, anatomy, compare)
    standing = [anatomy.row, anatomy.column, anatomy.block, anatomy.head, anatomy.asks]
    asked = [*page.asked, *compared, *standing, anatomy.steps, panel.address]

    def current(request: gr.Request, values: tuple[Any, ...]) -> View:
        *rest, step, told = values
        tab, board = page_state(told)
        rest, now = rest[: -len(standing)], rest[-len(standing) :]
        drawn = bool(now[0])  # until a step is, the fields stand at their low ends
        place = dict(zip(PLACE, now, strict=True)) if drawn else {}
        wish, desk = page.request(tuple(rest[: -len(compared)])), page.desk(request)
        side_by_side = compare_links.told(compare, rest[-len(compared) :])
        photo = None
        if wish.scene.photo is not None:
            photo = example_photos.name_of(page.studio.photo(desk, wish.scene.photo))
        vit = page.studio.models.ready(wish.scene.model)
        return links.view_of(wish, tab, step_of(step), photo, vit, side_by_side, board, place)

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
        raw = link_reading.from_query(dict(request.query_params))
        yield {panel.note: gr.skip()}
        if raw:
            yield from restorer.restoring(lang, page.desk(request), raw, [], scene, model)

    @guard
    def opened(
        lang: str, scene: Scene, model: str, path: str, request: gr.Request
    ) -> Iterator[Updates]:
        desk = page.desk(request)
        yield {panel.note: ""}  # what was told of another file
        raw, problems = found_in(adopt(path, desk.folder))
        yield from restorer.restoring(lang, desk, raw, problems, scene, model)

    def settle(nudge: int, request: gr.Request) -> tuple[Any, ...]:
        """The scene changes once the page has all else: the maps that follow it read that."""
        desk = page.desk(request)
        now, desk.restored = desk.restored, None
        if now is None:
            return (gr.skip(),) * 4
        board = gr.skip() if desk.board is None else attention_tab.stale(time.monotonic_ns())
        return now, now.model, nudge + 1, board

    inputs = [page.lang, page.scene, page.model]
    settled = [page.scene, page.model, page.nudge, attention.board]
    for event in (
        demo.load(follow, inputs, restorer.outputs, js=_IN_ITS_LANGUAGE, **AT_ONCE),
        panel.open.upload(opened, [*inputs, panel.open], restorer.outputs, **AT_ONCE),
    ):
        event.success(settle, page.nudge, settled, **AT_ONCE)


def page_state(told: Any) -> tuple[Any, dict[str, Any]]:
    """The tab that is open and what the Attention tab looks at, as the page's script told."""
    try:
        found = json.loads(told)
        return found["tab"], link_values.board(found.get("board"), [])
    except (TypeError, ValueError, KeyError, AttributeError):
        return None, {}


def found_in(path: Path) -> tuple[link_reading.Raw, list[Sentence]]:
    """The view in a file: of a view, or of maps. ValueError where there is none in it."""
    if unpacked_size(path) > LARGEST:
        raise ValueError(link_reading.no_view(path))
    if path.suffix.lower() == ".json":
        raw = link_reading.read_file(path)
        if raw is not None:
            return raw, link_reading.remarks(raw)
    examples = {example_photos.digest(name): name for name in example_photos.names()}
    return link_reading.from_recipe(open_recipe(path), examples)
