"""How long the line under a map takes: deletion in 16 steps beside ten random orders.

python -m benchmarks.measure_line [--photo app/examples/lion.jpg] [--model embedded] [--runs 5]

The first map of a photo pays for the random orders too; the next ones do not.
"""

from __future__ import annotations

import argparse
import statistics
import time

from explainers import Photo, VisionModel, explain, load_model, load_photo, measure


def seconds(vit: VisionModel, photo: Photo) -> tuple[float, float, float]:
    """Seconds of one forward pass, of the first map's measure, and of the next map's."""
    trace = vit.trace(photo)  # a new one knows no random orders yet
    first, following = (explain(name, trace) for name in ("rollout", "attention"))
    begun = time.perf_counter()
    vit.logits(trace.pixels)
    passed = time.perf_counter()
    measure(first, trace)  # type: ignore[arg-type]
    measured = time.perf_counter()
    measure(following, trace)  # type: ignore[arg-type]
    return passed - begun, measured - passed, time.perf_counter() - measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photo", default="app/examples/lion.jpg")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    vit, photo = load_model(arguments.model), load_photo(arguments.photo)
    runs = [seconds(vit, photo) for _ in range(arguments.runs)]
    one, first, following = (statistics.median(part) for part in zip(*runs, strict=True))
    print(f"one forward pass           {one:.2f} s (median of {arguments.runs})")
    print(f"first map of a photo       {first:.2f} s, {first / one:.1f} ×")
    print(f"next map of the same photo {following:.2f} s, {following / one:.1f} ×")


if __name__ == "__main__":
    main()
