"""Explaining many photos: which are finished, the others in batches, each to a row and maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from explainers.command.arguments import PREDICTED, RECIPE, TRUE
from explainers.command.index import SEPARATOR, TOP, Index, Row
from explainers.command.maps import map_files, write_maps
from explainers.command.measuring import measured
from explainers.command.photos import Found
from explainers.command.plan import Plan, supported
from explainers.command.terminal import CommandError, warn
from explainers.command.true_classes import TrueClasses
from explainers.heatmap import HeatMap
from explainers.image import Photo, PhotoError, load_photo
from explainers.look import Look
from explainers.methods.explain import explain
from explainers.pace import Pace, measure_pace
from explainers.registry import find_method
from explainers.render.describe import alt_text
from explainers.sentence import Sentence
from explainers.separate_looks import SeparateLooks
from explainers.trace import Trace

BATCH = 8
"""Photos that the model sees at once; more are no quicker."""

BATCH_TOKENS = 4096
"""Tokens of a batch, where that makes it smaller: a trace's memory grows with them."""

BATCH_PIXELS = 50_000_000
"""Pixels of the photos that are held at once."""


@dataclass
class Job:
    """One photo's way through a run: its file, its true class, what is to be said of it."""

    found: Found
    true: int | None
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def note(self, *sentences: str) -> None:
        self.notes += [text for text in map(str, sentences) if text not in self.notes]


class Work:
    """A plan carried out over photos, into an index."""

    def __init__(self, plan: Plan, index: Index, quiet: bool = False) -> None:
        """quiet: whether the forecasts of looks are left unsaid."""
        self.plan = plan
        self.quiet = quiet
        self.index = index
        self._classes = TrueClasses(plan.vit)
        self._pace: Pace | None = None
        self.maps = 0
        """How many were made and written."""

    def job(self, found: Found) -> Job:
        return Job(found, self._classes.find(found.folders))

    def finished(self, job: Job) -> bool:
        """Whether the photo's row was made by this very plan, and its maps are all there."""
        row = self.index.rows.get(job.found.file)
        if row is None or not row["fingerprint"]:
            return False
        every = map_files(job.found.file, self.plan.methods, self.plan.suffixes)
        maps = [file for file in every if file in row["maps"]]
        if SEPARATOR.join(maps) != row["maps"]:
            return False
        if not all((self.plan.out / file).is_file() for file in maps):
            return False
        try:
            return row["fingerprint"] == self.plan.fingerprint(job.found.path, job.true)
        except OSError:
            return False  # it cannot be read any more, which its row shall say

    def run(self, jobs: Iterable[Job]) -> Iterator[Row]:
        """Explain the photos; each row is on disk, after its maps, before it is yielded.

        Raises CommandError when no method works for the model, before any photo is explained.
        """
        methods = supported(self.plan)
        for batch, unread in self._batches(jobs):
            for job in unread:
                yield self._add(job, {})
            if self.plan.look != Look():
                for job, photo in batch:
                    yield self._add(job, self._look(job, photo, methods))
                continue
            if not batch:
                continue
            trace = self.plan.vit.trace([photo for _, photo in batch])
            for position, (job, _) in enumerate(batch):
                yield self._add(job, self._explain(job, trace[position], methods))

    def _look(self, job: Job, photo: Photo, methods: Sequence[str]) -> Row:
        """A photo that is looked at alone; what the look costs is said before it."""
        look, vit = self.plan.look, self.plan.vit
        try:
            if self._pace is None:
                self._pace = measure_pace(vit)
            told = look.forecast(vit, photo, self._pace)
            if not self.quiet:
                warn(f"{job.found.file}: {told.sentence}")
            trace, windows = look.model(vit, photo).trace(photo), look.windows(vit, photo)
        except ValueError as error:  # the model, or the memory, does not allow it
            job.errors.append(str(error))
            return {}
        return self._explain(job, trace, methods, windows)

    def _batches(self, jobs: Iterable[Job]) -> Iterator[tuple[list[tuple[Job, Photo]], list[Job]]]:
        """The photos, some at a time, and those jobs whose photo could not be read."""
        rows, columns = self.plan.vit.adapter.grid(self.plan.vit.preprocessing.size)
        most = max(1, min(BATCH, BATCH_TOKENS // (rows * columns)))
        if {".npz", RECIPE} & {*self.plan.suffixes}:
            most = 1  # a batch rounds differently, and these are to be the same when made again
        batch: list[tuple[Job, Photo]] = []
        unread: list[Job] = []
        for job in jobs:
            try:
                photo = load_photo(job.found.path)
            except PhotoError as error:
                job.errors.append(str(error))
                unread.append(job)
            else:
                job.note(*photo.notes)
                batch.append((job, photo))
            pixels = sum(photo.width * photo.height for _, photo in batch)
            if len(batch) >= most or len(unread) >= BATCH or pixels >= BATCH_PIXELS:
                yield batch, unread
                batch, unread = [], []
        yield batch, unread

    def _add(self, job: Job, row: Row) -> Row:
        if job.true is not None:
            label = self.plan.vit.label(job.true)
            row |= {"true_index": str(job.true), "true_class": label}
        row |= {
            "file": job.found.file,
            "notes": " ".join(job.notes),
            "error": " ".join(job.errors),
            "model": self.plan.vit.name,
        }
        self.index.add(row)
        return self.index.rows[job.found.file]

    def _explain(
        self,
        job: Job,
        trace: Trace,
        methods: Sequence[str],
        windows: SeparateLooks | None = None,
    ) -> Row:
        """The photo's answer, and its maps where they are wanted; of windows where there are."""
        row = _answer(trace.top(TOP), job.true)
        target = self._target(job, trace)
        if target is not None:
            row["target"] = trace.model.label(target)
        if self.plan.against is not None:
            row["against"] = trace.model.label(self.plan.against)
        files: list[str] = []
        for name in self._wanted(job, row, target, methods):
            try:
                heat = self._map(name, trace, target, windows)
            except ValueError as error:  # for this photo; the others go on
                job.errors.append(f"{name}: {error}")
                continue
            job.note(*heat.notes, *([alt_text(heat)] if heat.flat else []))
            if self.plan.measure:
                row |= measured(heat, trace, target, job.note)
            try:
                files += write_maps(heat, job.found.file, self.plan.suffixes, self.plan.out)
                self.maps += 1
            except CommandError as error:
                job.errors.append(str(error))
        row["maps"] = SEPARATOR.join(files)
        if not job.errors:
            row["fingerprint"] = self.plan.fingerprint(job.found.path, job.true)
        return row

    def _map(
        self, name: str, trace: Trace, target: int | None, windows: SeparateLooks | None
    ) -> HeatMap:
        classes: dict[str, Any] = {}
        if windows is not None and self.plan.target == PREDICTED:
            target = None  # each window's own first answer
        if find_method(name).class_specific:
            classes = {"target": target, "against": self.plan.against}
        settings = self.plan.settings[name]
        if windows is not None:
            return windows.explain(name, **classes, **settings)
        return cast(HeatMap, explain(name, trace, **classes, **settings))

    def _target(self, job: Job, trace: Trace) -> int | None:
        """The class to explain; None for a model without classes."""
        if not self.plan.vit.classes:
            return None
        if isinstance(self.plan.target, int):
            return self.plan.target
        if self.plan.target == TRUE and job.true is not None:
            return job.true
        if self.plan.target != PREDICTED and not self.plan.only_wrong:  # which makes no map then
            job.note(
                Sentence(
                    "command_true_unknown",
                    "No folder names the true class; the predicted one is explained.",
                )
            )
        return trace.top(1)[0][0]

    def _wanted(self, job: Job, row: Row, target: int | None, methods: Sequence[str]) -> list[str]:
        """The methods to use for a photo, and a note on why some are not."""
        if self.plan.only_wrong and not row["correct"]:
            job.note(
                Sentence(
                    "command_wrong_unknown",
                    "No folder names the true class, so it is not known whether the answer is "
                    "wrong; no map was made.",
                )
            )
        if self.plan.only_wrong and row["correct"] in ("", "top-1"):
            return []
        if self.plan.against is None or target != self.plan.against:
            return list(methods)
        job.note(
            Sentence(
                "command_against_target",
                "The class to explain is itself the one given with --against, so there is no "
                "map of a class for this photo.",
            )
        )
        return [name for name in methods if not find_method(name).class_specific]


def _answer(top: Sequence[tuple[int, str, float]], true: int | None) -> Row:
    """The columns on what the model answered, and whether that is right."""
    row: Row = {"correct": ""}
    for rank, (index, label, probability) in enumerate(top, 1):
        row |= {
            f"index_{rank}": str(index),
            f"class_{rank}": label,
            f"probability_{rank}": f"{probability:.6f}",
        }
    if true is not None and top:
        indices = [index for index, _, _ in top]
        row["correct"] = "no" if true not in indices else "top-5" if indices[0] != true else "top-1"
    return row
