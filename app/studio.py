"""What all visitors of one running page share, and what each of them has made so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

from app.desks import Desk, Desks
from app.files import new_folder
from app.keys import aim, map_key, trace_bytes, trace_key
from app.making import TICK, Made, Making, Outdated, follow
from app.models import Loader, ModelPool
from app.scene import Request, Scene
from app.store import Store
from app.work import Report, Workers
from explainers import Photo, PhotoError, explain, load_photo
from explainers.forecast import Forecast
from explainers.heatmap import HeatMap
from explainers.models.vision_model import VisionModel
from explainers.pace import Pace, measure_pace
from explainers.sentence import Sentence
from explainers.separate_looks import SeparateLooks
from explainers.trace import Trace

WORKERS = 2
"""Models run at once; each run already uses all cores for its matrix products."""

EVERYBODY = ""
"""The owner of what is remembered for all visitors alike."""

ASIDE_BYTES = 10_000
"""About what a result of `Studio.aside` takes: a few curves, a small picture."""


class Studio:
    """Models, workers, results and desks of one page.

    Everything here is made from a request and remembered under what it was made from, so it
    does not matter whether a result is still there: at most it is made again.
    """

    def __init__(self, load: Loader, default_model: str = "embedded") -> None:
        self.models = ModelPool(load)
        self.default_model = default_model
        self.workers = Workers(WORKERS)
        self.aside_workers = Workers(1)
        self.pace: dict[str, float] = {}
        """Model → seconds that a forward pass took here."""
        self._paces: dict[str, Pace] = {}
        self._pacing = threading.Lock()
        self.store = Store()
        self.desks = Desks(new_folder, self.store.drop)

    def model(self, desk: Desk, turn: int, name: str) -> Making[VisionModel]:
        """The model, loaded if need be; it goes on loading if somebody else waits for it too."""
        model = self.models.ready(name)
        if model is None:
            job = self.models.begin(name)
            try:
                yield from follow(desk, turn, job)
            finally:
                self.models.leave(job)
            model = job.result()
        return model

    def photo(self, desk: Desk, path: str) -> Photo:
        """The visitor's photo; PhotoError when its file has been cleared away."""
        photo: Photo | None = self.store.get(desk.owner, ("photo", path))
        if photo is None:
            if not Path(path).is_file():
                raise PhotoError(
                    Sentence(
                        "photo_gone",
                        "This photo has been deleted here, as all photos are within the hour; "
                        "choose it again.",
                    )
                )
            photo = load_photo(path)
            self.store.put(desk.owner, ("photo", path), photo, photo.pixels.nbytes)
        return photo

    def trace(
        self, desk: Desk, turn: int, vit: VisionModel, name: str, photo: Photo
    ) -> Making[Trace]:
        """One forward pass over the photo."""

        def make(report: Report) -> Trace:
            start = time.perf_counter()
            trace = vit.trace(photo)
            self.pace.setdefault(name, time.perf_counter() - start)
            return trace

        return self._made(desk, turn, trace_key(name, photo), make, trace_bytes)

    def seeing(self, desk: Desk, vit: VisionModel, scene: Scene, photo: Photo) -> VisionModel:
        """The model as the scene lets it look at the photo; see `Look.model`.

        ModelError where it cannot look so, or the memory does not allow it.
        """
        if scene.look.kind == "own":
            return vit
        trace: Trace | None = self.store.get(desk.owner, trace_key(scene.single, photo))
        if trace is not None and scene.look.kind == "whole":
            return trace.model
        self.forecast(vit, photo, scene)
        return scene.look.model(vit, photo)

    def paced(self, model: str) -> bool:
        """Whether it has been measured how fast a model runs here."""
        return model in self._paces

    def forecast(self, vit: VisionModel, photo: Photo, scene: Scene) -> Forecast:
        """What the scene's look costs here; ModelError where it cannot be taken."""
        with self._pacing:
            if scene.model not in self._paces:
                self._paces[scene.model] = measure_pace(vit)
        told = scene.look.forecast(vit, photo, self._paces[scene.model])
        if scene.look.kind != "own":
            self.pace.setdefault(scene.eye, told.seconds)
        return told

    def windows(self, desk: Desk, trace: Trace, scene: Scene) -> SeparateLooks | None:
        """The windows of a scene that has some; made once, since they keep their traces."""
        key = "windows", scene.eye, trace.photo.sha256
        found: SeparateLooks | None = self.store.get(desk.owner, key)
        if found is None:
            found = scene.look.windows(trace.model, trace.photo)
            if found is not None:
                self.store.put(desk.owner, key, found, len(found) * trace_bytes(trace))
        return found

    def heat_map(
        self,
        desk: Desk,
        turn: int,
        trace: Trace,
        model: str,
        method: str,
        target: int | None,
        against: int | None,
        parameters: Mapping[str, Any],
        windows: SeparateLooks | None = None,
    ) -> Making[HeatMap]:
        """One method's map. Methods that ignore the class are made once for all classes.

        windows: the separate looks that it is the mean of, where there are some.
        """
        key = map_key(model, trace.photo, method, target, against, parameters)
        target, against = key.target, key.against

        def make(report: Report) -> HeatMap:
            if windows is not None:
                return windows.explain(method, target, against, report, **parameters)
            heat = explain(
                method, trace, target=target, against=against, progress=report, **parameters
            )
            return heat[0] if isinstance(heat, list) else heat

        return self._made(desk, turn, key, make, lambda heat: heat.values.nbytes + 10_000)

    def remembered(self, desk: Desk, request: Request) -> list[HeatMap] | None:
        """All maps of a request that was answered before; None where one is missing."""
        scene = request.scene
        vit = self.models.ready(scene.model)
        if scene.photo is None or vit is None:
            return None
        photo = self.photo(desk, scene.photo)
        trace = self.store.get(desk.owner, trace_key(scene.single, photo))
        if trace is None:
            return None
        target, against = aim(trace, scene)
        heats: list[HeatMap] = []
        for name in filter(vit.supports, request.methods):
            parameters = request.parameters.get(name, {})
            key = map_key(scene.eye, photo, name, target, against, parameters)
            heat = self.store.get(desk.owner, key)
            if heat is None:
                return None
            heats.append(heat)
        return heats

    def aside(
        self,
        desk: Desk,
        key: Hashable,
        make: Callable[[Report], Made],
        turn: int | None = None,
        shared: bool = False,
    ) -> Making[Made]:
        """The remembered result, or what is made of it while no map of the visitor is.

        The job is any that has to end first. turn: the request that this belongs to, if it
        ends with it; shared: whether all visitors get the same. Raises Cancelled when a map
        has to be made meanwhile, and Outdated.
        """
        owner = EVERYBODY if shared else desk.owner

        def work(report: Report) -> Made:
            made = make(report)
            if not desk.closed:
                size = made.values.nbytes if isinstance(made, HeatMap) else 0
                self.store.put(owner, key, made, size + ASIDE_BYTES)
            return made

        while True:
            value: Made | None = self.store.get(owner, key)
            if value is not None:
                return value
            job = desk.start_aside(key, lambda: self.aside_workers.begin(key, work))
            if job is None:
                raise Outdated
            mine = job.key == key and not job.stopped
            if turn is None:
                while not job.wait(TICK):
                    yield job
            else:
                yield from follow(desk, turn, job)
            if mine:
                made: Made = job.result()
                return made

    def _made(
        self,
        desk: Desk,
        turn: int,
        key: Hashable,
        make: Callable[[Report], Made],
        size: Callable[[Made], int],
    ) -> Making[Made]:
        """The remembered result, or what a job of the visitor makes; one job at a time each."""
        value: Made | None = self.store.get(desk.owner, key)
        if value is not None:
            return value

        def work(report: Report) -> Made:
            made = make(report)
            if not desk.closed:
                self.store.put(desk.owner, key, made, size(made))
            return made

        previous = desk.job
        if (
            previous is not None
            and not previous.ended
            and (previous.key != key or previous.stopped)
        ):
            previous.stop()
            yield from follow(desk, turn, previous)
        job = desk.start(turn, key, lambda: self.workers.begin(key, work))
        if job is None:
            raise Outdated
        yield from follow(desk, turn, job)
        made: Made = job.result()
        return made
