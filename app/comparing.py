"""Many maps side by side: models × methods × classes × photos, made one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from app import handlers
from app.comparison import CHOSEN, RANKS, Asked, Cell, Comparison, check
from app.desks import Desk
from app.errors import known_sentence, logger
from app.keys import map_key, trace_bytes, trace_key
from app.making import TICK
from app.studio import Studio
from app.work import Job, Report
from explainers import Cancelled, HeatMap, Photo, VisionModel, explain, methods
from explainers.sentence import Sentence
from explainers.trace import Trace

Made = TypeVar("Made")


def comparing(studio: Studio, desk: Desk, asked: Asked) -> Iterator[Comparison]:
    """The comparison, yielded every tick while its maps are made, and at last complete.

    Ends early when the visitor asks for another one or cancels: what was made is kept.
    """
    check(asked)
    desk.compare_turn += 1
    turn = desk.compare_turn
    photos = [_photo(studio, desk, path) for path in asked.photos]
    cells = [
        Cell(photo, model, aim, method)
        for photo in range(len(photos))
        for model in asked.models
        for aim in asked.classes
        for method in asked.methods
    ]
    found = Comparison(asked, [photo for photo, _ in photos], cells)
    studio.store.put(desk.owner, "comparison", found, found.nbytes)
    for number, (photo, reason) in enumerate(photos):
        if photo is None:
            _refuse([cell for cell in cells if cell.photo == number], reason)
    work = _Work(studio, desk, found, turn)
    try:
        yield found
        for model in asked.models:
            yield from work.of_model(model)
    except (Cancelled, _Over):
        return
    finally:
        if studio.store.get(desk.owner, "comparison") is found and not desk.closed:
            studio.store.put(desk.owner, "comparison", found, found.nbytes)
    found.working = ""
    yield found


class _Over(Exception):  # noqa: N818 - not an error
    """The visitor asked for something else, or left."""


@dataclass
class _Work:
    """One comparison being made for one visitor."""

    studio: Studio
    desk: Desk
    found: Comparison
    turn: int

    def of_model(self, name: str) -> Iterator[Comparison]:
        """All maps of a model, photo by photo."""
        cells = [cell for cell in self.found.cells if cell.model == name and cell.waiting]
        if not cells:
            return
        try:
            vit = yield from self._model(name)
        except (Cancelled, _Over):
            raise
        except Exception as error:  # the other models go on
            _refuse(cells, _reason(error))
            return
        for number, photo in enumerate(self.found.photos):
            mine = [cell for cell in cells if cell.photo == number]
            if photo is None or not mine:
                continue
            try:
                trace = yield from self._trace(vit, name, photo)
            except (Cancelled, _Over):
                raise
            except Exception as error:
                _refuse(mine, _reason(error))
                continue
            if vit.classes:
                _, label, probability = trace.top(1)[0]
                self.found.answers[number, name] = (label, probability)
            for cell in mine:
                yield from self._map(cell, trace)

    def _model(self, name: str) -> Generator[Comparison, None, VisionModel]:
        self.found.working = "loading"
        for step in handlers.wait_for_model(self.studio, self.desk, name):
            if not isinstance(step, Job):
                return step
            self.found.share = step.share
            yield self._going()
        raise _Over

    def _trace(
        self, vit: VisionModel, name: str, photo: Photo
    ) -> Generator[Comparison, None, Trace]:
        return self._made(
            "trace", trace_key(name, photo), lambda report: vit.trace(photo), trace_bytes
        )

    def _map(self, cell: Cell, trace: Trace) -> Iterator[Comparison]:
        method, asked = methods()[cell.method], self.found.asked
        parameters = self._settings(cell)
        support = trace.model.supports(cell.method, parameters.get("row"))
        if not support:
            cell.reason = support.reason
            cell.failed = support.reason is None
            return
        cell.same = not method.class_specific and cell.aim != asked.classes[0]
        if cell.same:
            return
        try:
            target, against = (None, None)
            if method.class_specific and trace.model.classes:
                target, against = self._aim(cell.aim, trace, cell.model)
            key = map_key(cell.model, trace.photo, cell.method, target, against, parameters)

            def make(report: Report) -> HeatMap:
                heat = explain(cell.method, trace, target, against, progress=report, **parameters)
                return heat[0] if isinstance(heat, list) else heat

            cell.heat = yield from self._made(
                cell.method, key, make, lambda heat: heat.values.nbytes + 10_000
            )
        except (Cancelled, _Over):
            raise
        except Exception as error:  # one map's fault leaves the others theirs
            _refuse([cell], _reason(error))

    def _settings(self, cell: Cell) -> dict[str, Any]:
        """The method's settings; a block that is the usual one of the model in use (the last, in
        most methods) is the usual one of another model too, whatever its depth."""
        asked = self.found.asked
        given = dict(asked.parameters.get(cell.method, {}))
        used = self.studio.models.ready(asked.scene.model)
        if used is None or cell.model == asked.scene.model:
            return given
        for parameter in methods()[cell.method].parameters:
            usual, name = parameter.default, parameter.name
            if parameter.kind == "block" and given.get(name) == usual % used.adapter.depth:
                del given[name]
        return given

    def _aim(self, aim: str, trace: Trace, model: str) -> tuple[int, int | None]:
        """The class meant for this model, and the contrast chosen above, which all rows have but
        those of that class itself."""
        scene, vit = self.found.asked.scene, trace.model
        against = self._named(scene.against, vit, model)
        if aim in RANKS:
            target = trace.top(RANKS[aim] + 1)[-1][0]
        elif aim != CHOSEN:
            target = vit.find_class(aim)
        else:
            chosen = self._named(scene.target, vit, model)
            target = trace.top(1)[0][0] if chosen is None else chosen
        return target, None if against == target else against

    def _named(self, index: int | None, vit: VisionModel, model: str) -> int | None:
        """A class of the model in use, as a class of this one: the one of the same name."""
        scene = self.found.asked.scene
        if index is None or model == scene.model:
            return index
        other = self.studio.models.ready(scene.model)
        if other is None or not other.labels or not vit.labels:
            return vit.find_class(index)
        return vit.find_class(other.labels[index])

    def _made(
        self,
        what: str,
        key: Hashable,
        make: Callable[[Report], Made],
        size: Callable[[Made], int],
    ) -> Generator[Comparison, None, Made]:
        """What is remembered under ``key``, or is made now by a worker."""
        store, owner = self.studio.store, self.desk.owner
        known: Made | None = store.get(owner, key)
        if known is not None:
            return known
        self.found.working, self.found.share = what, 0.0
        job = self.studio.workers.begin(key, make)
        try:
            while not job.wait(TICK):
                self.found.share = job.share
                yield self._going()
        finally:
            job.stop()
        made: Made = job.result()
        if not self.desk.closed:
            store.put(owner, key, made, size(made))
        yield self._going()
        return made

    def _going(self) -> Comparison:
        if self.desk.compare_turn != self.turn or self.desk.closed:
            raise _Over
        return self.found


def _photo(studio: Studio, desk: Desk, path: str) -> tuple[Photo | None, Sentence | None]:
    try:
        return studio.photo(desk, path), None
    except ValueError as error:
        return None, known_sentence(error)


def _refuse(cells: Sequence[Cell], reason: Sentence | None) -> None:
    """There are no such maps: why, or None for a fault of the program."""
    for cell in cells:
        if cell.waiting:
            cell.reason, cell.failed = reason, reason is None


def _reason(error: Exception) -> Sentence | None:
    """What the error says; None for a fault of the program, which is logged."""
    reason = known_sentence(error)
    if reason is None:
        logger.error("a map of a comparison failed", exc_info=error)
    return reason
