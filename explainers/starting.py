"""Ctrl-C while `python -m explainers` is still loading its libraries: no traceback of theirs.

That takes seconds, and it begins in the package itself, before a line of `__main__` runs. A
program that imports the package keeps its own way with Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from typing import NoReturn

INTERRUPTED = 130
"""The code that shells give a program ended by Ctrl-C."""


def _is_command() -> bool:
    """Whether Python is looking for `-m explainers` now: so long, the first argument is "-m"."""
    given = sys.orig_argv
    return sys.argv[:1] == ["-m"] and ("-m", "explainers") in pairwise(given)


def _stop(*_: object) -> NoReturn:
    os.write(2, b"Interrupted before anything was done.\n")
    os._exit(INTERRUPTED)


def started() -> None:
    """The libraries are there: from now on Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _stop)
