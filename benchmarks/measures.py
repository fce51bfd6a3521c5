"""Which method's order of patches counts most? Deletion and insertion over a folder of photos.

python -m benchmarks.measures FOLDER|ARCHIVE --results RESULTS.jsonl
… --first 40 --methods rollout,relevance
… --sanity 3 --first 0
… --first 0 --table docs/methods_table.md

The embedded model's own answer is explained: photos need no labels. RESULTS gets a line for each
photo and method (docs/methods_measured.jsonl is one, of ECSSD's), and what it holds already is not
computed again, so that a run can be stopped and go on. The table is made from all of it. To look at
many photos in an hour, the pictures with holes are looked at in bfloat16 (areas differ by 0.001 on
average, 0.005 at most, from those in float32), and costly methods run with the settings in REDUCED,
which the table names; maps are float32.
"""

from __future__ import annotations

import argparse
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from benchmarks.measures_table import KINDS, RIVALS, Areas, Results, table
from explainers import HeatMap, Photo, VisionModel, explain, load_model, load_photo, methods
from explainers.measures import measure, sanity
from explainers.trace import Trace

REDUCED: dict[str, dict[str, Any]] = {
    "gradient_shap": {"samples": 8},
    "integrated_gradients": {"steps": 8},
    "kernel_shap": {"samples": 256},
    "lime": {"samples": 256},
    "rise": {"masks": 256},
    "score_cam": {"channels": 32},
    "smoothgrad": {"samples": 8},
    "vit_cx": {"masks": 32},
}
"""Cheaper settings, so that many photos can be measured."""

LEFT_OUT = ("patch_similarity",)
"""They compare with a patch that a person chooses, which says nothing of the class."""


def photos_in(where: Path) -> Iterator[Photo]:
    """The pictures of a folder, or of an archive, in the order of their names; masks left out."""
    with tempfile.TemporaryDirectory() as scratch:
        if where.is_file():
            with tarfile.open(where) as archive:
                archive.extractall(scratch, filter="data")
            where = Path(scratch)
        for path in sorted(where.rglob("*.jpg")):
            yield load_photo(path)


def areas_of(name: str, trace: Trace, rivals: bool) -> dict[str, Areas]:
    """A method's areas on one photo; with those of its rivals, which all methods share."""
    heat = explain(name, trace, **REDUCED.get(name, {}))
    assert isinstance(heat, HeatMap)
    found: dict[str, Areas] = defaultdict(dict)
    for kind in KINDS:
        with torch.autocast(trace.pixels.device.type, torch.bfloat16):
            measured = measure(heat, trace, kind, full=rivals)
        found[name][kind] = measured.area
        if measured.centre is not None:
            found["random"][kind] = measured.random_area[0]
            found["centre"][kind] = measured.centre.area
    return found


def measurable(vit: VisionModel) -> list[str]:
    """The methods that work for the model and put patches in an order, the cheap ones first."""
    patches = vit.adapter.grid(vit.preprocessing.size)
    trace = vit.trace(load_photo(np.zeros((8, 8, 3), np.uint8)))
    found = []
    for name, method in methods().items():
        cost = method.cost({**method.defaults, **REDUCED.get(name, {})}, patches[0] * patches[1])
        if name in LEFT_OUT or not vit.supports(name):
            continue
        if cost < 10:  # one that answers in colours is a cheap one
            heat = explain(name, trace)
            if isinstance(heat, HeatMap) and heat.kind == "rgb":
                continue
        found.append((cost, name))
    return [name for _, name in sorted(found)]


def check_sanity(name: str, traces: Sequence[Trace]) -> dict[str, float]:
    """Rank correlations with another class's map, and after all blocks were randomised."""
    found = sanity(name, traces, **REDUCED.get(name, {}))
    return {
        "photos": found.photos,
        "other_class": float("nan") if found.other_class is None else found.other_class,
        "weights": found.weights[-1][1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("where", type=Path, help="a folder of .jpg photos, or a .tar.gz of one")
    parser.add_argument("--results", type=Path, required=True, help="kept and gone on from")
    parser.add_argument("--first", type=int, default=None, help="only so many photos")
    parser.add_argument("--methods", default="", help="names, comma between; default: all")
    parser.add_argument("--sanity", type=int, default=0, help="photos for the sanity checks")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--table", type=Path, default=None, help="where the table goes")
    arguments = parser.parse_args()
    vit = load_model("embedded")
    names = arguments.methods.split(",") if arguments.methods else measurable(vit)
    results = Results(arguments.results)
    end = time.monotonic() + 60 * arguments.minutes
    for number, photo in enumerate(tqdm(photos_in(arguments.where), unit="photo")):
        if number == arguments.first or time.monotonic() > end:
            break
        todo = [name for name in names if photo.name not in results.areas[name]]
        if not todo:
            continue
        trace = vit.trace(photo)
        for name in todo:
            rivals = any(photo.name not in results.areas[rival] for rival in RIVALS)
            for order, areas in areas_of(name, trace, rivals).items():
                results.add(order, photo.name, areas)
    if arguments.sanity:
        traces = [
            vit.trace(photo) for photo in islice(photos_in(arguments.where), arguments.sanity)
        ]
        for name in tqdm([name for name in names if name not in results.sanity], unit="method"):
            results.add_sanity(name, check_sanity(name, traces))
    if arguments.table:
        arguments.table.write_text(table(results, REDUCED), encoding="utf-8")


if __name__ == "__main__":
    main()
