"""What a look was forecast to cost, beside what it then took: seconds and megabytes.

    python -m benchmarks.forecast                                     the embedded model
    python -m benchmarks.forecast --model vit_base_patch16_224 --sizes 224 448 768 1024

The model's pace is measured once, at its own size; then a photo of 3:4 is looked at as a whole at
each long side, and through windows at the last. Seconds are the median of a few looks; megabytes
are the peak of resident memory in the look beyond what was held before it (Linux). Weights of a
named model are random: neither time nor memory depends on them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import timm
import torch

from explainers import Photo, VisionModel, load_model, wrap_model
from explainers.forecast import MEGA, forecast, forecast_windows
from explainers.pace import measure_pace
from explainers.separate_looks import SeparateLooks

GIVEN_BACK = "MALLOC_MMAP_THRESHOLD_"
"""Set for the process that measures memory: glibc then hands freed memory back, which is slow, but
peaks are of what is in use."""


def resident(name: str) -> float:
    """A line of /proc/self/status in bytes: VmRSS now, VmHWM the peak since it was cleared."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def taken(work: Callable[[], object], runs: int) -> float:
    """Seconds or, in a process that measures memory, bytes at the peak beyond those before."""
    found = []
    for _ in range(runs):
        gc.collect()
        if GIVEN_BACK in os.environ:
            Path("/proc/self/clear_refs").write_text("5")
            before = resident("VmRSS")
            held = work()
            found.append(resident("VmHWM") - before)
        else:
            start = time.perf_counter()
            held = work()
            found.append(time.perf_counter() - start)
        del held
    return statistics.median(found)


def windows(vit: VisionModel, photo: Photo, long_side: int) -> SeparateLooks:
    looks = SeparateLooks(vit, photo, long_side)
    for index in range(len(looks)):
        looks.trace(index)
    return looks


def looked(vit: VisionModel, photo: Photo, sizes: list[int], runs: int) -> list[float]:
    """What a look at each long side took, and at last the windows together."""
    found = []
    for size in sizes:
        look = vit.whole(photo, size)
        found.append(taken(lambda look=look: look.trace(photo), runs))
    return [*found, taken(lambda: windows(vit, photo, sizes[-1]), 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--sizes", type=int, nargs="+", default=[224, 448, 768, 1024])
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.model == "embedded":
        vit = load_model("embedded")
    else:
        vit = wrap_model(timm.create_model(arguments.model).eval().requires_grad_(False))
    drawn = np.random.default_rng(0).integers(0, 256, (1200, 1600, 3), dtype=np.uint8)
    photo = Photo(drawn, "noise")
    vit.trace(photo)  # the first trace of a model checks its attention
    if GIVEN_BACK in os.environ:
        print(json.dumps(looked(vit, photo, arguments.sizes, 1)))
        return
    start = time.perf_counter()
    pace = measure_pace(vit)
    print(f"{vit.name}, {torch.get_num_threads()} threads; paced in", end=" ")
    print(f"{time.perf_counter() - start:.1f} s, load {os.getloadavg()[0]:.1f}")
    told = [forecast(vit, photo, pace, size) for size in arguments.sizes]
    told.append(forecast_windows(SeparateLooks(vit, photo, arguments.sizes[-1]), pace))
    seconds = looked(vit, photo, arguments.sizes, arguments.runs)
    command = [sys.executable, "-m", "benchmarks.forecast", *sys.argv[1:]]
    environment = {**os.environ, GIVEN_BACK: "65536"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    sizes = json.loads(done.stdout)
    print("   look       N  s told    taken     off  MB told    taken     off")
    names = [*map(str, arguments.sizes), f"{told[-1].looks} ×"]
    for name, wanted, second, size in zip(names, told, seconds, sizes, strict=True):
        print(
            f"{name:>7} {wanted.tokens:7,} {wanted.seconds:8.2f} {second:8.2f} "
            f"{wanted.seconds / second - 1:+7.0%} {wanted.bytes / MEGA:8.0f} {size / MEGA:8.0f} "
            f"{wanted.bytes / size - 1:+7.0%}"
        )


if __name__ == "__main__":
    main()
