"""The photos that arguments name: files as they are, folders with all that is in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from explainers.command.terminal import CommandError
from explainers.registry import methods
from explainers.sentence import Sentence

SUFFIXES = tuple(
    f".{kind}"
    for kind in (
        *("jpg", "jpeg", "jpe", "jfif", "mpo", "png", "webp", "avif", "heic", "heif"),
        *("tif", "tiff", "gif", "bmp", "jp2", "ppm", "pgm", "ico"),
    )
)
"""What a file's name in a folder ends with to be taken for a photo, in any case."""

SHEET = re.compile(r"contact_sheet(_\d+)?\.png")


@dataclass(frozen=True)
class Found:
    """A photo's file.

    file: its name in the index: its path from the folder that all arguments have in common,
    with "/". folders: names of the folders that may name its class, the nearest first.
    """

    path: Path
    file: str
    folders: tuple[str, ...]


def find_photos(arguments: Sequence[str], out: Path) -> tuple[list[Found], list[str]]:
    """All photos, sorted by path, each once; and the folders that could not be opened.

    Hidden files and folders, ``out`` and the maps in it are left out of folders. CommandError
    for an argument that is neither a file nor a folder.
    """
    closed: list[str] = []
    roots: dict[str, str] = {}  # path → the folder down from which names may name a class
    for argument in arguments:
        start = os.path.abspath(argument) if argument else ""
        if os.path.isdir(start):
            for path in _walk(start, os.path.realpath(out), closed):
                roots.setdefault(path, start)
        elif os.path.isfile(start):
            roots.setdefault(start, os.path.dirname(start))
        else:
            raise CommandError(
                Sentence(
                    "command_no_input",
                    "There is no photo or folder {name}; check the name.",
                    name=argument or "''",
                )
            )
    base = _base(arguments)
    found = [
        Found(
            Path(path),
            Path(os.path.relpath(path, base)).as_posix(),
            tuple(_folders(Path(path).parent, Path(root))),
        )
        for path, root in roots.items()
    ]
    return sorted(found, key=lambda photo: photo.file.split("/")), closed


def _base(arguments: Iterable[str]) -> str:
    """The folder all arguments have in common, so that no two photos get the same name."""
    starts = [os.path.abspath(argument) for argument in arguments]
    folders = [start if os.path.isdir(start) else os.path.dirname(start) for start in starts]
    try:
        return os.path.commonpath(folders)
    except ValueError as error:
        raise CommandError(
            Sentence(
                "command_drives",
                "The photos lie on several drives; give those of one drive at a time.",
            )
        ) from error


def _folders(folder: Path, root: Path) -> Iterator[str]:
    while True:
        yield folder.name
        if folder == root or folder == folder.parent:
            return
        folder = folder.parent


def _walk(start: str, out: str, closed: list[str]) -> Iterator[str]:
    """Paths of the photos below ``start``; links are followed, each folder is entered once."""
    entered: set[str] = set()
    walk = os.walk(start, followlinks=True, onerror=lambda error: closed.append(error.filename))
    for folder, below, files in walk:
        real = os.path.realpath(folder)
        if real in entered or (real == out and folder != start):
            below.clear()
            continue
        entered.add(real)
        below[:] = sorted(name for name in below if not name.startswith("."))
        here = set(files)
        for name in files:
            path = os.path.join(folder, name)
            wanted = name.lower().endswith(SUFFIXES) and not name.startswith(".")
            if wanted and not _made_here(name, here, real == out) and os.path.isfile(path):
                yield path


def _made_here(name: str, here: set[str], out: bool) -> bool:
    """Whether a file is a map of a photo beside it, or a contact sheet in the results' folder."""
    if out and SHEET.fullmatch(name):
        return True
    photo, _, method = name.removesuffix(".png").rpartition(".")
    return method in methods() and photo in here
