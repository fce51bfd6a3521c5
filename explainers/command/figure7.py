"""`figure7`: the ViT paper's figure 7 of a model, over a set of photos, as one file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from explainers.command.photos import Found, find_photos
from explainers.command.terminal import (
    CommandError,
    Exit,
    download_bar,
    progress_bar,
    say,
    warn,
)
from explainers.command.values import NATIVE
from explainers.image import Photo, PhotoError, load_photo
from explainers.models.loading import load_model
from explainers.render.export import write_file
from explainers.render.figure7 import check, figure7_bytes
from explainers.render.figure7_text import bibtex, caption
from explainers.render.layout import Layout
from explainers.sentence import Sentence
from explainers.views.figure7 import figure7


def make_figure7(options: argparse.Namespace) -> Exit:
    """Measure, draw, write, and print the caption; the code says how it went.

    Raises ValueError (the arguments, or the model) and OSError (the file).
    """
    if options.size == NATIVE:
        raise CommandError(
            Sentence(
                "command_figure7_size",
                "All photos of this figure are looked at in one size; give --size in pixels.",
            )
        )
    layout = Layout(width=options.width, font=options.font)
    suffix = options.out.suffix.lower()
    check(layout, suffix)
    found, closed = find_photos(options.inputs, options.out)
    photos, failed = _read(found)
    for name, reason in [*failed, *((name, "cannot be opened") for name in closed)]:
        warn(f"Left out: {name}: {reason}")
    if not photos:
        warn("No photo was found that can be read.")
        return Exit.NOTHING
    vit = load_model(
        options.model,
        arch=options.arch,
        size=options.size,
        progress=download_bar(options.quiet),
        device=options.device,
        allow_pickle=True,
    )
    with progress_bar(len(photos), 0, options.quiet) as bar:
        made = figure7(vit, photos, options.components, lambda *_: bar.update())
    write_file(options.out, figure7_bytes(made, layout, suffix))
    for text in (caption(made), bibtex(), f"Figure: {options.out}"):
        say(text)
    return Exit.SOME_FAILED if failed or closed else Exit.DONE


def _read(found: Sequence[Found]) -> tuple[list[Photo], list[tuple[str, str]]]:
    """The photos, and why others cannot be read."""
    photos, failed = [], []
    for one in found:
        try:
            photos.append(load_photo(one.path))
        except PhotoError as error:
            failed.append((one.file, str(error)))
    return photos, failed
