"""One call of an endpoint: whose it is, what it asks for, and waiting for what it gets."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import gradio as gr

from app import handlers
from app.desks import Desk
from app.explaining import Answered, Mapped, Refused, explaining
from app.files import new_folder
from app.making import TICK, Made, Making, Outdated
from app.scene import Request, Scene
from app.studio import Studio
from app.work import Report
from explainers import HeatMap, PhotoError, VisionModel
from explainers.heatmap import Target
from explainers.methods.explain import same_contrast
from explainers.sentence import Sentence

KEPT = 600.0
"""Seconds after a session's last call until all that it gave and got is deleted."""


@contextmanager
def calling(studio: Studio, request: gr.Request) -> Iterator[Desk]:
    """The caller's desk, for this call alone: calls of one session wait for one another.

    All assistants come in one session, Gradio's own; so each of their calls has a desk to itself.
    Not every program tells that it leaves: a desk without calls is closed after `KEPT`.
    """
    assistant = request.headers.get("x-gradio-user") == "mcp"
    owner = secrets.token_urlsafe(18) if assistant else request.session_hash or ""
    desk = Desk(owner, new_folder()) if assistant else studio.desks.of(owner)
    with desk.calls:
        if desk.closing is not None:
            desk.closing.cancel()
        try:
            yield desk
        finally:
            if assistant:  # it never comes back to this desk but for its files
                studio.store.drop(owner)
            desk.closing = threading.Timer(KEPT, _close, [studio, desk])
            desk.closing.daemon = True
            desk.closing.start()


def _close(studio: Studio, desk: Desk) -> None:
    """Delete all of a desk's, unless another call has come meanwhile."""
    if desk.calls.acquire(blocking=False):
        studio.desks.leave(desk.owner)
        desk.close()
        studio.store.drop(desk.owner)
        desk.calls.release()


def scene_of(studio: Studio, desk: Desk, photo: str | None, model: str) -> Scene:
    """The model and the photo, which moves into the caller's folder. PhotoError without one."""
    if photo is None:
        raise PhotoError(
            Sentence("api_no_photo", "No photo came; give a file as the first value, photo.")
        )
    return handlers.take_photo(studio, desk, Scene(model=model), photo)


def loaded(studio: Studio, desk: Desk, name: str) -> VisionModel:
    """The model; ModelError where it is not on this machine."""
    for step in handlers.wait_for_model(studio, desk, name):
        if isinstance(step, VisionModel):
            return step
    raise Outdated


def aimed(scene: Scene, vit: VisionModel, target: str | None, against: str | None) -> Scene:
    """The scene with the classes meant, by index or label; empty for the likeliest and none."""
    return replace(scene, target=_class(vit, target), against=_class(vit, against))


def _class(vit: VisionModel, text: str | None) -> int | None:
    return vit.find_class(text) if text and text.strip() else None


@dataclass(frozen=True)
class Found:
    """What came of a request. refused: method → the reason, None for a fault of the program."""

    answered: Answered
    heats: list[HeatMap]
    refused: dict[str, Sentence | None]

    @property
    def heat(self) -> HeatMap:
        """The map of the one method asked for; ValueError with the reason where there is none."""
        for reason in self.refused.values():
            raise ValueError(reason)
        return self.heats[0]


def found(studio: Studio, desk: Desk, request: Request) -> Found:
    """The model's answer and all maps of a request."""
    answered, heats, refused = None, [], {}
    for event in explaining(studio, desk, request):
        if isinstance(event, Answered):
            answered = event
        elif isinstance(event, Mapped):
            heats.append(event.heat)
        elif isinstance(event, Refused):
            refused[event.name] = event.reason
    if answered is None:
        raise Outdated
    if request.scene.against is not None and answered.against is None:
        raise ValueError(same_contrast(answered.model.label(request.scene.against)))
    return Found(answered, heats, refused)


def done(making: Making[Made]) -> Made:
    """What a step of the studio returns, once it is there."""
    while True:
        try:
            next(making)
        except StopIteration as end:
            made: Made = end.value
            return made


def worked(
    studio: Studio,
    desk: Desk,
    key: Hashable,
    work: Callable[[Report], Made],
    size: Callable[[Made], int],
) -> Made:
    """What is remembered under ``key``, or is made now by a worker; ends when the caller leaves."""
    known: Made | None = studio.store.get(desk.owner, key)
    if known is not None:
        return known
    job = studio.workers.begin(key, work)
    try:
        while not job.wait(TICK):
            if desk.closed:
                raise Outdated
    finally:
        job.stop()
    made: Made = job.result()
    if not desk.closed:
        studio.store.put(desk.owner, key, made, size(made))
    return made


def new_file(desk: Desk, name: str, contents: bytes) -> str:
    """Write a file of the caller's, in a place of its own."""
    place: Path = desk.folder / secrets.token_urlsafe(8)
    place.mkdir()
    path = place / name
    path.write_bytes(contents)
    return str(path)


def target_of(target: Target | None) -> dict[str, Any] | None:
    """A class as plain values: index, label, probability."""
    return None if target is None else asdict(target)
