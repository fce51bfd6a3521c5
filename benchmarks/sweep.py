"""Every architecture of timm that attends, with every method: a finite map, or a no beforehand.

python -m benchmarks.sweep FILE.jsonl --shard 0/2        may be stopped, and goes on where it was
… --one-a-file          only the smallest of each of timm's files
… --only swin,hiera     only architectures whose name holds one of these
python -m benchmarks.sweep FILE.jsonl … --table docs/models_table.md

Models are built with 2 blocks where the constructor takes a depth, else whole up to 300 million
parameters; perturbation methods get 4 samples (KernelSHAP its least, 8).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.sweep_models import architectures, build, smallest
from benchmarks.sweep_table import table
from explainers import ModelError, explain, load_photo, wrap_model
from explainers.heatmap import HeatMap
from explainers.registry import Method, methods
from explainers.trace import Trace

FEW = {"samples": 4, "masks": 4, "channels": 4, "steps": 2}
MAP = "map"


def noise_photo() -> Any:
    drawn = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
    return load_photo(drawn, "noise")


def check(module: nn.Module, size: tuple[int, int] | None = None) -> dict[str, Any]:
    """What came of every method for one module; size: its input, where it does not say it.

    cells: method → "map", "no: (key of the reason)" or "FAULT: (what happened)". A fault is
    the third outcome that must not be. reasons: the sentences by key.
    """
    try:
        vit = wrap_model(module, size=size)
        trace = vit.trace(noise_photo())
    except ModelError as error:
        sentence: Any = error.args[0]
        return {"cells": {}, "refused": str(sentence), "reasons": {}}
    answer = torch.equal(trace.logits, _answer(trace)) if trace.logits is not None else True
    cells, reasons = {}, {}
    for name, method in methods().items():
        support = vit.supports(name)
        if support:
            cells[name] = _run(method, trace)
        else:
            key = support.reason.key if support.reason else "?"
            cells[name], reasons[key] = f"no: {key}", str(support.reason)
    if vit.supports("attention", row=0):
        cells["attention, a row"] = _row(trace)
    return {
        "grid": list(trace.grid),
        "prefix": trace.prefix,
        "input": list(vit.preprocessing.size),
        "same answer": answer,
        "cells": cells,
        "reasons": reasons,
    }


def faults(row: dict[str, Any]) -> list[str]:
    """What is wrong in a result of `check`."""
    found = [f"{name}: {cell}" for name, cell in row["cells"].items() if cell.startswith("FAULT")]
    return found + ([] if row.get("same answer", True) else ["tracing changed the answer"])


def _answer(trace: Trace) -> torch.Tensor:
    with torch.no_grad():
        answer = trace.model.module(trace.pixels)
    return answer if isinstance(answer, torch.Tensor) else trace.model.logits(trace.pixels)


def _run(method: Method, trace: Trace) -> str:
    settings: dict[str, Any] = {}
    for parameter in method.parameters:
        if parameter.name in FEW and parameter.kind == "integer":
            settings[parameter.name] = max(FEW[parameter.name], int(parameter.low or 0))
    if method.name == "occlusion":
        settings["window"] = min(8, max(trace.grid))
    try:
        heat = explain(method.name, trace, **settings)
    except Exception as error:  # whatever it is, it was not announced
        return f"FAULT: {type(error).__name__}: {str(error)[:200]}"
    assert isinstance(heat, HeatMap)
    looks = method.name == "attention"
    grid = trace.block_grids(trace.depth - 1)[1] if looks else trace.grid
    return _judged(heat, grid, trace)


def _row(trace: Trace) -> str:
    """The first token's row in the first block, which may have a grid of its own."""
    try:
        heat = explain("attention", trace, block=0, row=0)
    except Exception as error:
        return f"FAULT: {type(error).__name__}: {str(error)[:200]}"
    assert isinstance(heat, HeatMap)
    return _judged(heat, trace.block_grids(0)[1], trace)


def _judged(heat: HeatMap, grid: tuple[int, int], trace: Trace) -> str:
    wanted = tuple(trace.pixels.shape[-2:]) if heat.kind == "pixels" else tuple(grid)
    if heat.values.shape[:2] != wanted:
        return f"FAULT: shape {heat.values.shape[:2]} where {wanted} was expected"
    return MAP if np.isfinite(heat.values).all() else "FAULT: not finite"


def sweep(file: Path, shard: tuple[int, int], only: tuple[str, ...], one_a_file: bool) -> None:
    """Add a line for each architecture that the file has none of."""
    done = {row["model"] for row in read([file])}
    with file.open("a", encoding="utf-8") as lines:
        for number, (source, name) in enumerate(chosen(only, one_a_file)):
            if number % shard[1] != shard[0] or name in done:
                continue
            start = time.perf_counter()
            built = build(name)
            row: dict[str, Any] = {"model": name, "file": source, "parameters": built.parameters}
            row |= {"built": built.how} if built.module else {"built": "not built here"}
            row |= check(built.module) if built.module else {"cells": {}}
            row["seconds"] = round(time.perf_counter() - start, 1)
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            lines.flush()
            wrong = faults(row)
            state = "; ".join(wrong) or row.get("refused") or "good"
            print(f"{name}: {state} ({row['seconds']} s)", flush=True)


def chosen(only: tuple[str, ...], one_a_file: bool) -> Iterator[tuple[str, str]]:
    """(timm's file, architecture) of those asked for."""
    if not one_a_file:
        yield from architectures(only)
        return
    wanted = list(architectures(only))
    for source in sorted({source for source, _ in wanted}):
        yield source, smallest([name for found, name in wanted if found == source])


def read(files: list[Path]) -> list[dict[str, Any]]:
    """The lines of the files that are there; a half-written last line is passed over."""
    rows = []
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", help="lines of JSON, one a model")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th model from the i-th on")
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    parser.add_argument("--one-a-file", action="store_true")
    parser.add_argument("--table", type=Path, help="write the table of what the files hold")
    given = parser.parse_args()
    if given.table:
        given.table.write_text(table(read(given.files)), encoding="utf-8")
        return
    first, count = map(int, given.shard.split("/"))
    only = tuple(part for part in given.only.split(",") if part)
    sweep(given.files[0], (first, count), only, given.one_a_file)


if __name__ == "__main__":
    main()
