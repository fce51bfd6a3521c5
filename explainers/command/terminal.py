"""What the command line says, and the codes it ends with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TextIO

from tqdm import tqdm


class Exit(IntEnum):
    """How a command ended, for the scripts that call it."""

    DONE = 0
    SOME_FAILED = 1
    USAGE = 2
    NOTHING = 3
    INTERRUPTED = 130


EXIT_CODES = """exit codes:
  0    all done
  1    some photos could not be read or explained (all others are done), or the disk or the
       memory was full
  2    the arguments are wrong, or the model cannot be loaded
  3    nothing to do: no photo was found, or none could be read
  130  interrupted; the same command goes on where it stopped"""


class CommandError(ValueError):
    """The command cannot do what it was asked to; the message is one plain sentence."""


def say(text: str = "") -> None:
    """A line of results, on standard output."""
    sys.stdout.write(printable(text, sys.stdout) + "\n")


def warn(text: str) -> None:
    """A line about the work, on standard error; a progress bar there stays whole."""
    tqdm.write(printable(text, sys.stderr), file=sys.stderr)


def printable(text: str, stream: TextIO) -> str:
    """``text`` with a "?" for each letter that the stream's encoding does not have."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def progress_bar(total: int, done: int, quiet: bool) -> Any:
    """A bar over photos on standard error; silent when that is no terminal, or when asked."""
    return tqdm(
        total=total, initial=done, unit="photo", file=sys.stderr, disable=True if quiet else None
    )


def download_bar(quiet: bool) -> Callable[[int, int], None]:
    """What `load_model` calls with (bytes received, bytes in all): a bar from the first byte on."""
    bar: Any = None

    def show(received: int, total: int) -> None:
        nonlocal bar
        if bar is None and received == total:
            return  # said twice, or nothing to fetch
        if bar is None:
            bar = tqdm(
                desc="downloading the model",
                unit="B",
                unit_scale=True,
                file=sys.stderr,
                disable=True if quiet else None,
            )
        bar.total = total or None
        bar.update(received - bar.n)
        if received == total:
            bar.close()
            bar = None  # another file may follow

    return show
