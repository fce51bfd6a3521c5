"""One process or several: what `torchrun` has started, and sums over all of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed

from training.errors import TrainingError


@dataclass(frozen=True)
class World:
    """rank: this process's number, from 0. size: how many there are. local: on this machine."""

    rank: int = 0
    size: int = 1
    local: int = 0

    @property
    def first(self) -> bool:
        """Whether this process writes the files and the progress bar."""
        return self.rank == 0

    def part(self, batch: int) -> slice:
        """This process's share of a batch."""
        if batch % self.size:
            raise TrainingError(
                f"A batch of {batch} images cannot be shared by {self.size} processes; make "
                "--batch a multiple of them."
            )
        share = batch // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def summed(self, numbers: list[float], device: torch.device) -> list[float]:
        """The numbers summed over all processes."""
        if self.size == 1:
            return numbers
        kind = torch.float32 if device.type == "mps" else torch.float64
        total = torch.tensor(numbers, dtype=kind, device=device)
        distributed.all_reduce(total)
        found: list[float] = total.tolist()
        return found

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            distributed.barrier()


@contextmanager
def joined() -> Iterator[World]:
    """The processes that torchrun started, connected; one alone without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World()
        return
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(local)
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        yield World(rank, size, local)
    finally:
        distributed.destroy_process_group()


def device(name: str, world: World) -> torch.device:
    """The device of this process. Raises TrainingError for one that is not here."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", world.local)
        name = "mps" if torch.backends.mps.is_available() and world.size == 1 else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise TrainingError(
            f"There is no device {name!r} here; try --device auto or cpu."
        ) from error
