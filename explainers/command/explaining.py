"""`explain`: from the options to maps, index, contact sheets, and what is said at the end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from explainers.command import summary
from explainers.command.arguments import TRUE
from explainers.command.index import Index, Row
from explainers.command.measuring import measured_columns, measured_lines
from explainers.command.photos import Found, find_photos
from explainers.command.plan import Plan, check_settings, make_plan
from explainers.command.results import FULL, results_folder, unwritable
from explainers.command.sheets import Entry, write_sheets
from explainers.command.terminal import Exit, download_bar, progress_bar, say, warn
from explainers.command.values import NATIVE
from explainers.command.work import Job, Work
from explainers.models.loading import load_model
from explainers.models.vision_model import VisionModel


def explain_photos(options: argparse.Namespace) -> Exit:
    """Explain the photos of the options; the code says how it went.

    Raises ValueError (the arguments, or the model) and OSError (the results' folder).
    """
    found, closed = find_photos(options.inputs, options.out)
    if not found:
        warn("No photo was found: no file there has a name that ends as a picture's does.")
        _list("Folders that cannot be opened", [(name, "") for name in closed])
        return Exit.NOTHING
    vit = _load(options)
    plan = make_plan(options, vit)
    check_settings(plan)
    columns = measured_columns(plan.methods) if plan.measure else ()
    with results_folder(plan.out):
        return _explain(plan, found, closed, columns, options)


def _explain(
    plan: Plan,
    found: Sequence[Found],
    closed: Sequence[str],
    columns: Sequence[str],
    options: argparse.Namespace,
) -> Exit:
    """Explain what is not finished, write index and sheets, and say how it went."""
    try:
        index = Index(plan.out / "index.csv", columns)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise unwritable(error, plan.out / "index.csv") from error
    work = Work(plan, index, options.quiet)
    try:
        jobs = [work.job(photo) for photo in found]
        made, before = _work(work, jobs, options)
    finally:
        index.save()
    rows = [index.rows[photo.file] for photo in found]
    entries = [Entry(photo.path, row) for photo, row in zip(found, rows, strict=True)]
    obstructed = None
    if made or options.columns or not (plan.out / "contact_sheet.png").is_file():
        title = f"{plan.vit.name} - {len(rows)} photos" + _numbers(rows)
        try:
            write_sheets(entries, plan.methods, plan.out, options.columns, title)
        except OSError as error:
            if error.errno in FULL:
                raise
            obstructed = unwritable(error, Path(error.filename or plan.out))
    failed = [(row["file"], row["error"]) for row in rows if row["error"]]
    _report(plan, rows, made, before, work.maps)
    _list("Not done", failed)
    if plan.target == TRUE or plan.only_wrong:
        unknown = dict.fromkeys(job.found.folders[0] for job in jobs if job.true is None)
        _list("Folders whose name is no class of the model", [(name, "") for name in unknown])
    _list("Folders that cannot be opened", [(name, "") for name in closed])
    if obstructed is not None:
        warn(str(obstructed))
    if all(row["error"] and not row["class_1"] + row["maps"] for row in rows):
        return Exit.NOTHING
    return Exit.SOME_FAILED if failed or closed or obstructed else Exit.DONE


def _load(options: argparse.Namespace) -> VisionModel:
    vit = load_model(
        options.model,
        arch=options.arch,
        labels=options.labels,
        size=None if options.size == NATIVE else options.size,
        progress=download_bar(options.quiet),
        device=options.device,
        dtype=options.dtype,
        allow_pickle=True,
    )
    if not options.quiet:
        warn(f"Model: {vit.name}")
        for note in vit.notes:
            warn(note)
    return vit


def _work(work: Work, jobs: Sequence[Job], options: argparse.Namespace) -> tuple[int, int]:
    """Explain what is not finished; how many that were, and how many were finished before."""
    todo = [job for job in jobs if options.force or not work.finished(job)]
    if not options.quiet:
        _announce(jobs, len(todo))
    before = len(jobs) - len(todo)
    if todo:
        with progress_bar(len(jobs), before, options.quiet) as bar:
            for _ in work.run(todo):
                bar.update()
    return len(todo), before


def _announce(jobs: Sequence[Job], todo: int) -> None:
    known = [job for job in jobs if job.true is not None]
    classes = len({job.true for job in known})
    warn(
        f"{len(jobs)} photos, {todo} to explain; the folders of {len(known)} name {classes} classes"
    )


def _numbers(rows: Sequence[Row]) -> str:
    known = summary.accuracy(rows)
    if not known.photos:
        return ""
    return f", top-1 {known.top1} of {known.photos}, top-5 {known.top5} of {known.photos}"


def _report(plan: Plan, rows: Sequence[Row], made: int, before: int, maps: int) -> None:
    failed = sum(1 for row in rows if row["error"])
    say(
        f"{len(rows)} photos: {made - failed} explained, {before} finished before, "
        f"{failed} not done; {maps} {'map' if maps == 1 else 'maps'} made."
    )
    for line in [*summary.lines(rows), *measured_lines(rows, plan)]:
        say(line)
    say(f"Results: {plan.out / 'index.csv'}")


def _list(heading: str, items: Sequence[tuple[str, str]]) -> None:
    """Names and reasons, on standard error; nothing where there are none."""
    if items:
        warn(f"{heading} ({len(items)}):")
    for name, reason in items:
        warn(f"  {name}: {reason}" if reason else f"  {name}")
