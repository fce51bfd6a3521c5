"""Events of the download buttons: a file is made, then handed to the browser."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import drawing, figure_events, handlers
from app.errors import guard
from app.widgets import QUIET, Widgets
from explainers.recipe import recipe_of
from explainers.render.export import png_bytes
from explainers.render.npz import npz_bytes
from explainers.render.plate import Panel

HAND_OVER = """(file) => {
  if (!file) return;
  const link = document.createElement('a');
  link.href = file.url; link.download = file.orig_name || '';
  document.body.append(link); link.click(); link.remove();
}"""


def connect(page: Widgets) -> None:
    """Each map as a PNG of the photo's own size; all maps as one NPZ, a recipe, a figure."""

    @guard
    def save_all(lang: str, request: gr.Request, *values: Any) -> str:
        desk = page.desk(request)
        heats = handlers.maps_of(page.studio, desk, page.request(values))
        return handlers.write(desk, heats, "maps.npz", npz_bytes(heats))

    def saver(name: str) -> Any:
        @guard
        def save(lang: str, request: gr.Request, *values: Any) -> str:
            desk = page.desk(request)
            *rest, legend = values
            asked = page.request(tuple(rest))
            heats = handlers.maps_of(page.studio, desk, asked)
            heat = next((heat for heat in heats if heat.method == name), None)
            if heat is None:
                raise ValueError(handlers.refusal(page.studio, desk, asked, name))
            picture = png_bytes(
                heat, legend=bool(legend), **drawing.options(heat, asked.display, heats)
            )
            return handlers.write(desk, heats, f"{name}.png", picture)

        return save

    @guard
    def save_recipe(lang: str, request: gr.Request, *values: Any) -> str:
        desk = page.desk(request)
        heats = handlers.maps_of(page.studio, desk, page.request(values))
        return handlers.write(desk, heats, "recipe.json", recipe_of(heats).to_json().encode())

    with_legend = [*page.asked, page.tab.legend]
    buttons = [
        (page.tab.save_all, save_all, page.asked),
        (page.tab.save_recipe, save_recipe, page.asked),
        *((card.save, saver(name), with_legend) for name, card in page.tab.cards.items()),
    ]
    for button, handler, inputs in buttons:
        made = button.click(handler, inputs, page.file, **QUIET)
        made.success(None, page.file, None, js=HAND_OVER, api_visibility="private")

    def panels(request: gr.Request, values: tuple[Any, ...], with_photos: bool) -> list[Panel]:
        asked = page.request(values)
        heats = handlers.maps_of(page.studio, page.desk(request), asked)
        maps = [
            Panel(heat, figure_events.title(heat), drawing.options(heat, asked.display, heats))
            for heat in heats
        ]
        photos = [Panel(heat.photo, heat.photo.name) for heat in heats[:1]] if with_photos else []
        return [*photos, *maps]

    figure_events.connect(page, page.tab.figure, page.asked[1:], panels)
