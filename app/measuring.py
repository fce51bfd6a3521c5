"""After the maps: how far to trust each of them, as a stream of events."""

from __future__ import annotations

import time
from collections.abc import Generator, Hashable, Iterator, Mapping
from dataclasses import dataclass

from app.desks import Desk
from app.errors import known_sentence, logger
from app.explaining import Answered
from app.keys import map_key
from app.making import Making, Outdated, Stopped
from app.scene import Request
from app.studio import Studio
from app.work import Report
from explainers import Cancelled, HeatMap
from explainers.measures import Measure, Sanity, measure, sanity
from explainers.sentence import Sentence
from explainers.trace import Trace


@dataclass(frozen=True)
class Measuring:
    """A map is being measured."""

    name: str


@dataclass(frozen=True)
class Measured:
    """What removing a map's best patches did to the class."""

    name: str
    measure: Measure


@dataclass(frozen=True)
class Unmeasured:
    """A map cannot be measured, and why (None for a fault of the program)."""

    name: str
    reason: Sentence | None


MeasureEvent = Measuring | Measured | Unmeasured


def measuring(
    studio: Studio,
    desk: Desk,
    request: Request,
    answered: Answered,
    heats: Mapping[str, HeatMap],
) -> Iterator[MeasureEvent]:
    """One measure after the other, while the visitor asks for nothing else."""
    model = request.scene.eye
    try:
        for name, heat in heats.items():
            key = measure_key(request, heat, answered)
            making = deletion(studio, desk, model, key, heat, answered, answered.turn)
            try:
                yield Measured(name, (yield from _following(name, making)))
            except (Stopped, Cancelled, Outdated):
                raise
            except Exception as error:
                if known_sentence(error) is None:
                    logger.error("measuring %s failed", name, exc_info=error)
                yield Unmeasured(name, known_sentence(error))
    except (Stopped, Cancelled, Outdated):
        return


def _following(name: str, making: Making[Measure]) -> Generator[MeasureEvent, None, Measure]:
    while True:
        try:
            next(making)
        except StopIteration as end:
            found: Measure = end.value
            return found
        yield Measuring(name)


def deletion(
    studio: Studio,
    desk: Desk,
    model: str,
    key: Hashable,
    heat: HeatMap,
    answered: Answered,
    turn: int | None = None,
    full: bool = False,
) -> Making[Measure]:
    """A map's deletion, beside random orders; full: with their curves and the centre's.

    It also tells how long a forward pass takes here.
    """

    def make(report: Report) -> Measure:
        passes = 0

        def counted(done: int, total: int) -> None:
            nonlocal passes
            passes = done
            report(done, total)

        trace, target, start = answered.trace, answered.target, time.perf_counter()
        found = measure(heat, trace, target=target, full=full, progress=counted)
        # Many passes tell more than one, the first of which also warms the machine up.
        studio.pace[model] = (time.perf_counter() - start) / max(passes, 1)
        return found

    return studio.aside(desk, key, make, turn)


def checks(studio: Studio, desk: Desk, request: Request, name: str, trace: Trace) -> Making[Sanity]:
    """The two sanity checks of a method on a model, made once for everybody."""
    parameters = request.parameters.get(name, {})

    def make(report: Report) -> Sanity:
        return sanity(name, trace, progress=report, **parameters)

    return studio.aside(desk, sanity_key(request, name), make, shared=True)


def measure_key(
    request: Request, heat: HeatMap, answered: Answered, full: bool = False
) -> Hashable:
    """Under what a map's measure is remembered: the map, and the class that is watched."""
    target, against = answered.target, answered.against
    parameters = request.parameters.get(heat.method, {})
    key = map_key(request.scene.eye, heat.photo, heat.method, target, against, parameters)
    return "measure", key, target, full


def sanity_key(request: Request, name: str) -> Hashable:
    """Under what a method's checks are remembered: the model, the method and its settings."""
    parameters = tuple(sorted(request.parameters.get(name, {}).items()))
    return "sanity", request.scene.eye, name, parameters
