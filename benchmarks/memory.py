"""Peak memory of this process, and of a fresh one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def peak_mb() -> float:
    """The most resident memory this program has had, in MB (Linux).

    Not getrusage's ru_maxrss: a program started by a larger one inherits that one's peak.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def peak_of(*arguments: str) -> float:
    """What ``python -m ARGUMENTS`` prints, its own `peak_mb`, run as a fresh process.

    glibc is told to hand freed memory back, so that the peak is of what is in use; else it
    keeps what the forward pass freed, and the figure changes by 100 MB from run to run.
    """
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1048576"}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)
