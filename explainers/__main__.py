"""The command line: `python -m explainers explain PHOTO…`, `figure7`, `replay`, `models`, …"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import torch

from explainers.command.arguments import parse
from explainers.command.explaining import explain_photos
from explainers.command.figure7 import make_figure7
from explainers.command.listing import list_methods, list_models
from explainers.command.replaying import replay_recipe
from explainers.command.results import FULL
from explainers.command.terminal import Exit, warn
from explainers.render.export import SaveError
from explainers.starting import started

COMMANDS = {
    "explain": explain_photos,
    "replay": replay_recipe,
    "figure7": make_figure7,
    "models": list_models,
    "methods": list_methods,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments ask; the exit code, which `--help` explains.

    What went wrong is one sentence on standard error. A traceback is a fault of the program.
    """
    try:
        options = parse(argv)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    try:
        code = COMMANDS[options.command](options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        warn("Interrupted. Finished photos are kept; the same command goes on from there.")
        return Exit.INTERRUPTED
    except BrokenPipeError:  # whoever read our lines has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except ValueError as error:
        warn(str(error))
        return Exit.USAGE
    except SaveError as error:  # one file that was asked for; the message says what to do
        warn(str(error))
        return Exit.SOME_FAILED if error.errno in FULL else Exit.USAGE
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        warn(f"Stopped: {error.strerror or error}{where}. Finished photos are kept.")
        return Exit.SOME_FAILED
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        warn(
            "Stopped: the memory is full. Take a smaller model or --size. Finished photos are kept."
        )
        return Exit.SOME_FAILED


def _out_of_memory(error: Exception) -> bool:
    """Torch reports a full memory of the processor as a bare RuntimeError."""
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or "can't allocate memory" in str(error)


if __name__ == "__main__":
    started()
    sys.exit(main())
