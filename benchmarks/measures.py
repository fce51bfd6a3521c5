"""Which method's order of patches counts most? Deletion and insertion over a folder of photos.

python -m benchmarks.measures FOLDER|ARCHIVE --results RESULTS.jsonl
… --first 40 --methods rollout,relevance --table docs/methods_table.md

The embedded model's own answer is explained: photos need no labels. RESULTS gets a line for each
photo and method, and what it holds already is not computed again, so that a run can be stopped and
go on. The table is made from all of it: the mean over photos with 95 % bootstrap intervals, and the
differences from random orders and from the centre first, photo by photo. Costly methods run with
the settings in REDUCED, which the table names.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from explainers import HeatMap, Photo, VisionModel, explain, load_model, load_photo, methods
from explainers.measures import measure
from explainers.measures.curves import Kind
from explainers.trace import Trace

SEED = 1
RESAMPLES = 10_000
KINDS: tuple[Kind, ...] = ("deletion", "insertion")
RIVALS = ("random", "centre")
TITLES = {"random": "*random order*", "centre": "*centre first*"}

REDUCED: dict[str, dict[str, Any]] = {
    "integrated_gradients": {"steps": 16},
    "smoothgrad": {"samples": 10},
}
"""Cheaper settings, so that many photos can be measured."""

Areas = dict[str, float]
"""deletion and insertion of one photo's map."""


def photos_in(where: Path) -> Iterator[Photo]:
    """The pictures of a folder, or of an archive, in the order of their names; masks left out."""
    with tempfile.TemporaryDirectory() as scratch:
        if where.is_file():
            with tarfile.open(where) as archive:
                archive.extractall(scratch, filter="data")
            where = Path(scratch)
        for path in sorted(where.rglob("*.jpg")):
            yield load_photo(path)


def areas_of(name: str, trace: Trace) -> dict[str, Areas]:
    """A method's areas on one photo; with those of its rivals, which are shared by all methods."""
    heat = explain(name, trace, **REDUCED.get(name, {}))
    assert isinstance(heat, HeatMap)
    found: dict[str, Areas] = defaultdict(dict)
    for kind in KINDS:
        measured = measure(heat, trace, kind, full=True)
        assert measured.centre is not None
        found[name][kind] = measured.area
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
        if not vit.supports(name):
            continue
        if cost < 10:  # one that answers in colours is a cheap one
            heat = explain(name, trace)
            if isinstance(heat, HeatMap) and heat.kind == "rgb":
                continue
        found.append((cost, name))
    return [name for _, name in sorted(found)]


class Results:
    """Areas by method and photo, kept in a file of one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.areas: dict[str, dict[str, Areas]] = defaultdict(dict)
        if path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.areas[row.pop("method")][row.pop("photo")] = row

    def add(self, name: str, photo: str, areas: Areas) -> None:
        self.areas[name][photo] = areas
        with self.path.open("a") as file:
            file.write(json.dumps({"method": name, "photo": photo, **areas}) + "\n")


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean, and the 95 % bootstrap interval of the mean (percentiles, seeded)."""
    draw = np.random.default_rng(SEED)
    means = values[draw.integers(0, len(values), (RESAMPLES, len(values)))].mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)


def _said(values: np.ndarray, sign: bool = False) -> str:
    mean, low, high = interval(values)
    form = "+.3f" if sign else ".3f"
    return f"{mean:{form}} [{low:{form}}, {high:{form}}]"


def table(results: Results) -> str:
    """The table and what it says, as Markdown."""
    areas = results.areas
    photos = sorted(areas["random"])
    means = {
        kind: {name: np.mean([a[kind] for a in by.values()]) for name, by in areas.items()}
        for kind in KINDS
    }
    lines = [
        "## Measured: which order of patches counts most?",
        "",
        f"The embedded model on {len(photos)} photos of ECSSD (its own answer is explained). "
        "*Deletion*: patches are replaced by the photo's mean colour in the map's order, highest "
        "first, in 16 steps; the figure is the area under the class's probability, 0 to 1, and "
        "lower is better. *Insertion*: they are put back in that order; higher is better. In "
        "brackets: 95 % bootstrap intervals over photos. The last columns are the gain, photo "
        "by photo, over the mean of ten random orders and over the photo's centre first: both "
        "kinds added, (deletion of the rival − its own) + (its own insertion − the rival's). "
        "An interval that stays above 0 is a real advantage.",
        "",
        "| order | photos | deletion ↓ | insertion ↑ | gain over random | gain over centre |",
        "| --- | ---: | --- | --- | --- | --- |",
    ]
    gains = {name: {rival: _gain(areas, name, rival) for rival in RIVALS} for name in areas}
    for name in sorted(areas, key=lambda n: -float(np.mean(gains[n]["random"]))):
        by = areas[name]
        cells = [_said(np.array([a[kind] for a in by.values()])) for kind in KINDS]
        cells += [
            "–" if rival == name else _said(gains[name][rival], sign=True) for rival in RIVALS
        ]
        title = TITLES.get(name, f"[`{name}`](#{name})")
        lines.append(f"| {title} | {len(by)} | {' | '.join(cells)} |")
    named = [name for name in areas if name not in RIVALS]
    best = {
        "deletion": min(named, key=lambda n: means["deletion"][n]),
        "insertion": max(named, key=lambda n: means["insertion"][n]),
    }
    lines += [""]
    for kind in KINDS:
        by = areas[best[kind]]
        own = np.array([a[kind] for a in by.values()])
        differences = [
            f"{_said(np.array([areas[rival][p][kind] for p in by]) - own, sign=True)} "
            f"against {TITLES[rival].strip('*')}"
            if kind == "deletion"
            else f"{_said(own - np.array([areas[rival][p][kind] for p in by]), sign=True)} "
            f"against {TITLES[rival].strip('*')}"
            for rival in RIVALS
        ]
        lines.append(f"- Best at {kind}: `{best[kind]}`, better by {' and '.join(differences)}.")
    reduced = [
        f"`{name}` ({', '.join(f'{k} = {v}' for k, v in given.items())})"
        for name, given in REDUCED.items()
        if name in areas
    ]
    if reduced:
        lines.append(f"- Run with reduced settings: {'; '.join(reduced)}.")
    fewer = sorted({len(by) for by in areas.values()})
    if len(fewer) > 1:
        lines.append(
            "- Methods with fewer photos are costly; their photos are the first of the list, and "
            "their gains are over the same photos."
        )
    lines.append(
        "- One model and one set of photos: on another model the order may be another. Both "
        "measures look at photos with holes, which the model was not trained on."
    )
    return "\n".join(lines) + "\n"


def _gain(areas: dict[str, dict[str, Areas]], name: str, rival: str) -> np.ndarray:
    """How much better than a rival order, photo by photo: both kinds together."""
    return np.array(
        [
            areas[rival][photo]["deletion"]
            - own["deletion"]
            + own["insertion"]
            - areas[rival][photo]["insertion"]
            for photo, own in areas[name].items()
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("where", type=Path, help="a folder of .jpg photos, or a .tar.gz of one")
    parser.add_argument("--results", type=Path, required=True, help="kept and gone on from")
    parser.add_argument("--first", type=int, default=None, help="only so many photos")
    parser.add_argument("--methods", default="", help="names, comma between; default: all")
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
            for order, areas in areas_of(name, trace).items():
                if photo.name not in results.areas[order]:
                    results.add(order, photo.name, areas)
    if arguments.table:
        arguments.table.write_text(table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
