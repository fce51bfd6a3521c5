"""From a request to its maps, as a stream of events; nothing here knows the page's widgets."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from app.desks import Desk
from app.errors import known_sentence, logger
from app.keys import aim
from app.making import Made, Making, Outdated, Stopped
from app.scene import Request
from app.studio import Studio
from explainers import Cancelled, HeatMap, Photo, VisionModel
from explainers.sentence import Sentence
from explainers.trace import Trace


@dataclass(frozen=True)
class Opened:
    """The photo was read."""

    photo: Photo


@dataclass(frozen=True)
class Working:
    """Work goes on. what: "loading", "trace" or a method's name; share: how much of it is done."""

    what: str
    share: float
    waiting: bool
    """Whether it still waits for other visitors' work."""


@dataclass(frozen=True)
class Answered:
    """The model has answered: its trace, and the class explained (None without a head).

    turn: the visitor's turn that this request has."""

    model: VisionModel
    trace: Trace
    target: int | None
    against: int | None
    turn: int


@dataclass(frozen=True)
class Pending:
    """These maps will follow, in this order."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Mapped:
    """A method's map is there."""

    name: str
    heat: HeatMap


@dataclass(frozen=True)
class Refused:
    """A method does not work here, and why."""

    name: str
    reason: Sentence | None
    """None for a fault of the program, which was logged."""


@dataclass(frozen=True)
class Ended:
    """No more maps follow. stopped: the visitor pressed Cancel."""

    stopped: bool = False


Event = Opened | Working | Answered | Pending | Mapped | Refused | Ended


def explaining(
    studio: Studio, desk: Desk, request: Request, turn: int | None = None
) -> Iterator[Event]:
    """Everything the request asks for, piece by piece as it is ready.

    turn: the visitor's turn that the request has been given; None: it is given the next one.
    Ends without `Ended` when a later request of the visitor takes over. Raises PhotoError or
    ModelError where there is no photo or model to work with.
    """
    if turn is None:
        turn = desk.next_turn()
    scene = request.scene
    if scene.photo is None:
        yield Ended()
        return
    try:
        photo = studio.photo(desk, scene.photo)
        yield Opened(photo)
        vit = yield from _working("loading", studio.model(desk, turn, scene.model))
        eye = studio.seeing(desk, vit, scene, photo)
        trace = yield from _working("trace", studio.trace(desk, turn, eye, scene.single, photo))
        vit, windows = trace.model, studio.windows(desk, trace, scene)
        target, against = aim(trace, scene)
        yield Answered(vit, trace, target, against, turn)
        yield Pending(request.methods)
        for name in request.methods:
            if desk.turn != turn:
                return
            parameters = request.parameters.get(name, {})
            row = parameters.get("row")
            support = windows.supports(name, parameters) if windows else vit.supports(name, row)
            if not support:
                yield Refused(name, support.reason)
                continue
            making = studio.heat_map(
                desk, turn, trace, scene.eye, name, target, against, parameters, windows
            )
            try:
                heat = yield from _working(name, making)
            except (Stopped, Cancelled, Outdated):
                raise
            except Exception as error:  # one method's fault leaves the others their maps
                if known_sentence(error) is None:
                    logger.error("%s failed", name, exc_info=error)
                yield Refused(name, known_sentence(error))
                continue
            yield Mapped(name, heat)
        yield Ended()
    except (Stopped, Cancelled):
        # A job can also end by a stop meant for an earlier turn's request.
        if desk.turn == turn:
            yield Ended(stopped=True)
    except Outdated:
        return


def _working(what: str, making: Making[Made]) -> Generator[Event, None, Made]:
    """Follow a step of the studio, telling how far it is; returns what the step returns."""
    while True:
        try:
            job = next(making)
        except StopIteration as end:
            made: Made = end.value
            return made
        yield Working(what, job.share, waiting=not job.started.is_set())
