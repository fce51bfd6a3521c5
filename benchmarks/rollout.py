"""Trace + rollout against a plain forward pass: time as a ratio, memory beyond its peak.

    python -m benchmarks.rollout                          ViT-B/16 at 224 px
    python -m benchmarks.rollout --size 768
    python -m benchmarks.rollout --model vit_small_patch16_224 --size 2048 --runs 1

Times are medians of paired runs: a forward pass and a trace with its rollout in turn, so that
a machine that slows down slows both. Peak memory is that of two fresh processes, one running
the forward pass only. Weights are random: neither time nor memory depends on them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import timm
import torch

from benchmarks.memory import peak_mb, peak_of
from explainers import Photo, VisionModel, explain, wrap_model


def prepared(model: str, size: int) -> tuple[VisionModel, Photo, torch.Tensor]:
    module = timm.create_model(model, img_size=size).eval().requires_grad_(False)
    vit = wrap_model(module)
    drawn = np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)
    photo = Photo(drawn, "noise", ())
    return vit, photo, vit.prepare([photo])[0]


def plain(vit: VisionModel, pixels: torch.Tensor) -> None:
    with torch.inference_mode():
        vit.module(pixels)


def rolled_out(vit: VisionModel, photo: Photo) -> None:
    explain("rollout", vit.trace(photo))


def seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak(arguments: argparse.Namespace, what: str) -> float:
    """Peak resident memory in MB of a fresh process that does one thing twice."""
    size = str(arguments.size)
    return peak_of("benchmarks.rollout", "--only", what, "--model", arguments.model, "--size", size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--only", choices=("forward", "rollout"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    vit, photo, pixels = prepared(arguments.model, arguments.size)
    if arguments.only:
        runs = 1 if arguments.size > 1000 else 2
        for _ in range(runs):
            if arguments.only == "forward":
                plain(vit, pixels)
            else:
                rolled_out(vit, photo)
        print(peak_mb())
        return
    rolled_out(vit, photo)  # the first trace of a model checks its attention
    pairs = [
        (seconds(lambda: plain(vit, pixels)), seconds(lambda: rolled_out(vit, photo)))
        for _ in range(arguments.runs)
    ]
    ratio = statistics.median(ours / theirs for theirs, ours in pairs)
    forward = statistics.median(theirs for theirs, _ in pairs)
    alone, with_rollout = peak(arguments, "forward"), peak(arguments, "rollout")
    rows, columns = vit.adapter.grid((arguments.size, arguments.size))
    print(f"{arguments.model} at {arguments.size} px, {rows * columns + vit.adapter.prefix} tokens")
    print(f"  forward pass            {forward:8.3f} s   {alone:8.0f} MB peak")
    print(f"  trace + rollout         {ratio:8.3f} ×   {with_rollout - alone:+8.0f} MB")


if __name__ == "__main__":
    main()
