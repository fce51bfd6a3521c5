"""How much memory is free for one more look: of the device, or of the machine's and its limits."""

from __future__ import annotations

from pathlib import Path

import torch

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")

_NAMES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Files of a limit and of what is used, and the entry of what is only cached: version 2, 1."""


def free_bytes(device: torch.device, proc: Path = PROC, cgroup: Path = CGROUP) -> int | None:
    """Bytes that can still be taken on ``device``; None where nothing says so.

    On the processor: what the kernel calls available, or what a container's limit (cgroup v2 or
    v1) leaves of it where that is less.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + unused)
    if device.type != "cpu":
        return None
    known = [size for size in (_available(proc), _below_limit(proc, cgroup)) if size is not None]
    return min(known, default=None)


def _available(proc: Path) -> int | None:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None


def _below_limit(proc: Path, cgroup: Path) -> int | None:
    """What the least of this process's control groups may still take, version 1 or 2.

    Files that were read and can go again count as free.
    """
    left: list[int] = []
    for folder in _groups(proc, cgroup):
        for limit, used, cached in _NAMES:
            try:
                most = (folder / limit).read_text().strip()
                now = int((folder / used).read_text())
                lines = (folder / "memory.stat").read_text().splitlines()
            except (OSError, ValueError):
                continue
            if most.isdigit():  # else "max": no limit
                stored = sum(int(n) for name, n in map(str.split, lines) if name == cached)
                left.append(max(0, int(most) - now + stored))
    return min(left, default=None)


def _groups(proc: Path, cgroup: Path) -> list[Path]:
    """The folders of the process's memory groups, up to their roots."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    folders: list[Path] = []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers == "" or "memory" in controllers.split(","):
            root = cgroup / controllers if controllers else cgroup
            inner = root / place.lstrip("/")
            folders += [inner, *(above for above in inner.parents if above.is_relative_to(root))]
    return folders
