"""What happens at each event of the page: plain functions, to be tested without a browser."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path

from app import classes
from app.desks import Desk
from app.explaining import Ended, Mapped, Refused, explaining
from app.files import adopt, browser_can_show, write_png
from app.making import TICK
from app.scene import Request, Scene, with_model
from app.studio import Studio
from app.texts import say, tell
from app.work import Job
from explainers import HeatMap, VisionModel, load_photo
from explainers.models.catalogue import CATALOGUE
from explainers.sentence import Sentence

STILL = 1.0
"""Seconds without a job after which a request is taken to be over: its jobs follow at once."""


def take_photo(studio: Studio, desk: Desk, scene: Scene, path: str | Path) -> Scene:
    """The scene with a new photo; the class is again the most likely one.

    The file moves into the visitor's folder. PhotoError when it is no photo: then it is
    deleted and the caller keeps the old scene.
    """
    file = adopt(path, desk.folder)
    try:
        photo = load_photo(file)
        if not browser_can_show(file):
            name = Path(photo.name).stem or "photo"
            shown = Path(write_png(photo.to_pil(), desk.folder, name))
            file.unlink()
            file = shown
    except Exception:
        file.unlink(missing_ok=True)
        raise
    studio.store.put(desk.owner, ("photo", str(file)), photo, photo.pixels.nbytes)
    return replace(scene, photo=str(file), target=None, against=None)


def choose_photo(studio: Studio, desk: Desk, scene: Scene, path: str | Path) -> Scene | None:
    """As `take_photo`; None where the visitor has turned to another photo meanwhile.

    Reading takes time, and a choice that is outdated when it is done says nothing any more.
    """
    desk.photo_turn += 1
    turn = desk.photo_turn
    try:
        scene = take_photo(studio, desk, scene, path)
    except Exception:
        if desk.photo_turn != turn:
            return None
        raise
    return scene if desk.photo_turn == turn else None


def choose_no_photo(desk: Desk, scene: Scene) -> Scene:
    """The scene without a photo; one that is still being read comes too late."""
    desk.photo_turn += 1
    return replace(scene, photo=None, target=None, against=None)


def choose_target(scene: Scene, model: str, target: int | None) -> Scene:
    """The scene with another class; without one, the most likely class is explained."""
    scene = with_model(scene, model)
    against = None if scene.against == target else scene.against
    return replace(scene, target=target, against=against)


def choose_rank(scene: Scene, model: str, ranks: list[int], rank: object) -> Scene:
    """The scene with the class clicked in the list of the most likely ones."""
    if not isinstance(rank, int) or not 0 <= rank < len(ranks):
        return scene
    return choose_target(scene, model, ranks[rank])


def choose_contrast(scene: Scene, model: str, against: int | None) -> Scene:
    """The scene with another class to hold the explained one against, or none."""
    return replace(with_model(scene, model), against=against)


def use_model(studio: Studio, desk: Desk, name: str, download: bool) -> Iterator[Job | VisionModel]:
    """Load a model for a visitor: its job every tick, at last the model itself.

    Ends without a model when the visitor has turned to another one meanwhile; raises ModelError
    where there is none to be had, with the key "model_not_here" if a download would help.
    """
    desk.model_turn += 1
    turn = desk.model_turn
    for step in wait_for_model(studio, desk, name, download):
        if desk.model_turn != turn:
            return
        yield step


def wait_for_model(
    studio: Studio, desk: Desk, name: str, download: bool = False
) -> Iterator[Job | VisionModel]:
    """The job that loads a model, every tick, and at last the model; ends if the visitor left."""
    model = studio.models.ready(name)
    if model is None:
        job = studio.models.begin(name, download)
        try:
            while not job.wait(TICK):
                if desk.closed:
                    return
                yield job
        finally:
            studio.models.leave(job)
        model = job.result()
    yield model


def maps_of(studio: Studio, desk: Desk, request: Request) -> list[HeatMap]:
    """The maps a request shows, to be saved: remembered ones, or made again.

    Where another request of the visitor takes over meanwhile, its end is waited for: mostly it
    makes the same maps.
    """
    while True:
        remembered = studio.remembered(desk, request)
        if remembered is not None:
            return remembered
        events = list(explaining(studio, desk, request))
        if desk.closed or any(isinstance(event, Ended) for event in events):
            return [event.heat for event in events if isinstance(event, Mapped)]
        _wait_until_still(desk)


def refusal(studio: Studio, desk: Desk, request: Request, name: str) -> Sentence:
    """Why there is no map of a method to save, in one sentence."""
    events = explaining(studio, desk, replace(request, methods=(name,)))
    reasons = [event.reason for event in events if isinstance(event, Refused)]
    return next(filter(None, reasons), nothing_to_save())


def _wait_until_still(desk: Desk) -> None:
    """Wait until nothing has been made for a visitor for a while."""
    still = 0.0
    while still < STILL and not desk.closed:
        time.sleep(TICK)
        still = still + TICK if desk.job is None or desk.job.ended else 0.0


def model_facts(lang: str, name: str, vit: VisionModel) -> str:
    """Under the model menu: what kind of model this is and what it makes of a photo."""
    key = "model_facts" if vit.classes else "model_facts_headless"
    lines = [*described(lang, name), say(lang, key, **classes.facts(vit))]
    lines += [tell(lang, note) for note in vit.notes]
    return "".join(f"<p>{escape(text)}</p>" for text in lines)


def described(lang: str, name: str) -> list[str]:
    """The list's line on a model, if it is on the list."""
    return [tell(lang, entry.description) for entry in CATALOGUE if entry.name == name]


def download_text(lang: str, name: str) -> str:
    """What the button that fetches a model says: its name, and its size where that is known."""
    size = next((entry.megabytes for entry in CATALOGUE if entry.name == name), None)
    if size is None:
        return say(lang, "download_model_unknown", name=name)
    return say(lang, "download_model_size", name=name, megabytes=f"{size:.0f}")


def write(desk: Desk, heats: list[HeatMap], ending: str, contents: bytes) -> str:
    """Write a file to be downloaded into the visitor's folder, named after the photo."""
    if not heats:
        raise ValueError(nothing_to_save())
    stem = Path(heats[0].photo.name).stem or "photo"
    place = desk.folder / secrets.token_urlsafe(8)
    place.mkdir()
    path = place / f"{stem}-{ending}"
    path.write_bytes(contents)
    return str(path)


def nothing_to_save() -> Sentence:
    """Said when a download is asked for and there is no map."""
    return Sentence("nothing_to_save", "There is no map to save; choose a photo and a method.")
