"""The folder of the results: made, claimed for one run, and errors that say which file it was."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from explainers.command.terminal import CommandError
from explainers.sentence import Sentence

if sys.platform != "win32":
    import fcntl

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Errors after which no other file can be written either."""


@contextmanager
def results_folder(out: Path) -> Iterator[Path]:
    """The folder, made where it is missing, and this run's alone while the context lasts.

    Two runs would overwrite each other's index. CommandError when it cannot be had; a run that
    is killed lets go of it.
    """
    if out.exists() and not out.is_dir():
        raise CommandError(
            Sentence(
                "command_out_file",
                "The results go into a folder, and {name} is a file; choose another --out.",
                name=str(out),
            )
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        claim = _claim(out)
    except OSError as error:
        raise unwritable(error, out) from error
    if claim is None:
        raise CommandError(
            Sentence(
                "command_out_taken",
                "Another run is writing into {name}; wait for its end, or choose another --out.",
                name=str(out),
            )
        )
    try:
        yield out
    finally:
        os.close(claim)


def _claim(out: Path) -> int | None:
    """An open handle that holds the folder until it is closed; None while another run has it."""
    if sys.platform == "win32":  # a file that goes with its handle, whatever ends the program
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_TEMPORARY
            return os.open(out / ".claimed", flags)
        except (FileExistsError, PermissionError):
            return None
    handle = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:  # a file system without locks: then the user must take care
        pass
    return handle


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An OSError in this context names ``path``, not a file beside it that was written first."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, _reason(error), str(path)) from error


def unwritable(error: OSError, path: Path) -> CommandError:
    """What to do about a file or folder of the results that something stands in the way of."""
    return CommandError(
        Sentence(
            "command_unwritable",
            "{name} cannot be written ({reason}); move away what is in its place, or choose "
            "another --out.",
            name=str(path),
            reason=_reason(error),
        )
    )


def _reason(error: OSError) -> str:
    """Why, in the system's words alone: what raised it may have made a sentence of them."""
    return error.strerror or (os.strerror(error.errno) if error.errno else str(error))
