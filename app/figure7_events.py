"""Events of figure 7: measured over the photos when asked for, photo by photo, until Cancel."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr
from PIL import Image

from app import cards, example_photos
from app.compare_tab import example_choices
from app.desks import Desk
from app.errors import explain_error, guard, toast
from app.figure7_panel import WIDTH, Figure7Panel
from app.files import adopt
from app.handlers import wait_for_model
from app.runs import Runs, shares
from app.texts import say
from app.widgets import QUIET, Widgets
from app.work import Job
from explainers import Photo, VisionModel, load_photo
from explainers.methods.explain import Cancelled
from explainers.render.layout import SUFFIXES, Layout
from explainers.views.figure7 import Figure7, figure7

PREVIEW = 1400
"""The most pixels of the preview's width."""


def connect(page: Widgets, panel: Figure7Panel) -> None:
    """Make, cancel; another model's figure goes."""
    studio = page.studio
    runs = Runs(studio.workers)
    nothing = [gr.skip()] * 5

    @guard
    def make(
        lang: str, request: gr.Request, model: str, examples: Any, files: Any, *form: Any
    ) -> Iterator[list[Any]]:
        desk = page.desk(request)
        busy = [gr.update(interactive=False), gr.update(interactive=True)]
        over = [gr.update(interactive=True), gr.update(interactive=False)]
        try:
            layout, suffix = _layout(*form)
            photos = _photos(lang, desk, examples, files)
            for vit in wait_for_model(studio, desk, model):
                if isinstance(vit, Job):
                    yield [cards.line("vs-state", say(lang, "status_loading")), *busy, *nothing]
            key = ("figure7", model, tuple(photo.sha256 for photo in photos))
            found: Figure7 | None = studio.store.get(desk.owner, key)
            if found is None:
                with runs.begin(desk, key, _work(vit, photos)) as job:
                    for share in shares(job, desk):
                        text = cards.line("vs-state", say(lang, "figure7_working"))
                        yield [text + cards.bar(share), *busy, *nothing]
                    if desk.closed:
                        return
                    found = job.result()
                studio.store.put(desk.owner, key, found, _bytes(found))
            yield ["", *over, *_shown(desk, found, layout, suffix)]
        except Cancelled:
            yield [cards.line("vs-state", say(lang, "figure7_stopped")), *over, *nothing]
        except Exception as error:
            yield [cards.line("vs-refused", explain_error(lang, error)), *over, *nothing]

    def cancel(request: gr.Request) -> None:
        runs.stop(page.desk(request))

    def forget(request: gr.Request) -> list[Any]:
        cancel(request)
        return ["", gr.update(visible=False)]

    common: dict[str, Any] = {"concurrency_limit": 8, **QUIET}
    inputs = [page.lang, page.model, *panel.given]
    panel.make.click(make, inputs, panel.outputs, **common)
    panel.cancel.click(cancel, None, None, queue=False, **QUIET)
    page.model.change(forget, None, [panel.status, panel.result.box], queue=False, **QUIET)
    page.lang.change(
        lambda lang: gr.update(choices=example_choices(lang)), page.lang, panel.examples, **QUIET
    )


def _work(vit: VisionModel, photos: Sequence[Photo]) -> Any:
    return lambda report: figure7(vit, photos, progress=report)


def _layout(width: Any, kind: Any) -> tuple[Layout, str]:
    """From the panel's fields; an empty one means the usual, `Layout` refuses what cannot be."""
    given = float(width) if isinstance(width, int | float) else WIDTH
    return Layout(width=given), kind if kind in SUFFIXES else SUFFIXES[0]


def _photos(lang: str, desk: Desk, examples: Any, files: Any) -> list[Photo]:
    """The photos that can be read, each once; the others are told in a toast."""
    found = [load_photo(example_photos.path(number)) for number in examples or []]
    for path in files or []:
        try:
            found.append(load_photo(adopt(str(path), desk.folder)))
        except Exception as error:
            gr.Warning(toast(lang, error), title=say(lang, "photo_refused"))
    return list({photo.sha256: photo for photo in found}.values())


def _bytes(found: Figure7) -> int:
    """About what a figure's numbers and photos take."""
    return sum(photo.pixels.nbytes for photo in found.photos) + 1_000_000


def _shown(desk: Desk, found: Figure7, layout: Layout, suffix: str) -> list[Any]:
    """Updates of the box, the picture, the file, the caption and the paper's BibTeX."""
    from explainers.render.figure7 import figure7_bytes  # matplotlib is slow to import
    from explainers.render.figure7_text import bibtex, caption

    place = desk.folder / secrets.token_urlsafe(8)
    place.mkdir()
    path = place / f"figure7{suffix}"
    path.write_bytes(figure7_bytes(found, layout, suffix))
    dpi = max(72, min(200, int(PREVIEW / layout.width * 25.4)))
    small = Layout(width=layout.width, dpi=dpi)
    picture = Image.open(io.BytesIO(figure7_bytes(found, small, ".png")))
    text = caption(found)
    return [
        gr.update(visible=True),
        gr.update(value=picture, alt_text=text),
        gr.update(value=str(path)),
        text,
        bibtex(),
    ]
