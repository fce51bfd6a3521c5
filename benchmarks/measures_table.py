"""The table of `benchmarks.measures`: results kept in a file, bootstrap intervals, Markdown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from explainers import methods
from explainers.measures.curves import Kind

SEED = 1
RESAMPLES = 10_000
KINDS: tuple[Kind, ...] = ("deletion", "insertion")
RIVALS = ("random", "centre")
FEWEST = 5
"""Photos below which a method is left out: an interval over fewer says nothing."""

TITLES = {"random": "random order", "centre": "centre first"}

Areas = dict[str, float]
"""deletion and insertion of one photo's map."""


class Results:
    """What was measured, kept in a file of one JSON object a line.

    areas: method (or rival) → photo → areas. sanity: method → photos, other_class, weights.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.areas: dict[str, dict[str, Areas]] = defaultdict(dict)
        self.sanity: dict[str, dict[str, float]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            row = json.loads(line)
            name, photo = row.pop("method"), row.pop("photo", None)
            if photo is None:
                self.sanity[name] = row
            else:
                self.areas[name][photo] = row

    def add(self, name: str, photo: str, areas: Areas) -> None:
        self.areas[name][photo] = areas
        self._write({"method": name, "photo": photo, **areas})

    def add_sanity(self, name: str, found: dict[str, float]) -> None:
        self.sanity[name] = found
        self._write({"method": name, **found})

    def _write(self, row: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def values(self, name: str, kind: Kind) -> np.ndarray:
        """A method's areas, photo by photo."""
        return np.array([areas[kind] for areas in self.areas[name].values()])

    def gain(self, name: str, other: str, kind: Kind) -> np.ndarray:
        """How much better than another order, on each photo that both were measured on."""
        own, rival = self.areas[name], self.areas[other]
        both = [photo for photo in own if photo in rival]
        sign = 1 if kind == "insertion" else -1
        return sign * np.array([own[photo][kind] - rival[photo][kind] for photo in both])


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean, and the 95 % bootstrap interval of the mean (percentiles, seeded)."""
    draw = np.random.default_rng(SEED)
    means = values[draw.integers(0, len(values), (RESAMPLES, len(values)))].mean(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(values.mean()), float(low), float(high)


def table(results: Results, reduced: Mapping[str, Mapping[str, Any]]) -> str:
    """The table and what it says, as Markdown. reduced: settings that were not the default."""
    text = (
        f"The embedded model on {len(results.areas['random'])} photos of ECSSD; its own answer is "
        "explained. *Deletion*: patches are replaced by the photo's mean colour in the map's "
        "order, highest first, in 16 steps; the figure is the area under the class's "
        "probability, 0 to 1, and lower is better. *Insertion*: they are put back in that order; "
        "higher is better. *Gains* are photo by photo, over the mean of ten random orders and "
        "over the photo's centre first, deletion / insertion; above 0 is better. In brackets: "
        "95 % bootstrap intervals over photos. Pictures with holes were looked at in bfloat16; of "
        "32 areas compared, it and float32 differ by 0.005 at most. Photo by photo: "
        "[methods_measured.jsonl](methods_measured.jsonl)."
    )
    heads = ["order", "photos", "deletion ↓", "insertion ↑", "gain over random", "gain over centre"]
    if results.sanity:
        heads += ["other class", "random weights"]
        text += (
            " The last two columns are rank correlations with the map of another class, and "
            "with the map after all blocks' weights were randomised: near 1, the map does not "
            "depend on them."
        )
    lines = [
        "## Measured: which order of patches counts most?",
        "",
        text,
        "",
        f"| {' | '.join(heads)} |",
        "| --- | ---: |" + " --- |" * (len(heads) - 2),
    ]
    measured = [name for name, by in results.areas.items() if len(by) >= FEWEST]
    names = sorted(measured, key=lambda name: -_both(results, name))
    lines += [_row(results, name) for name in names]
    lines += ["", *_winners(results, [name for name in names if name not in RIVALS])]
    settings = [
        f"`{name}` ({', '.join(f'{key} = {value}' for key, value in given.items())})"
        for name, given in reduced.items()
        if name in measured
    ]
    if settings:
        lines.append(f"- Run with fewer samples than by default: {'; '.join(settings)}.")
    few = [f"`{name}`" for name in methods() if name not in measured]
    if few:
        lines.append(f"- Not measured, or on fewer than {FEWEST} photos: {', '.join(few)}.")
    if len({len(results.areas[name]) for name in measured}) > 1:
        lines.append(
            "- Costly methods were measured on the first photos only; their gains are over the "
            "same photos, so compare gains rather than areas."
        )
    lines.append(
        "- One model and one set of photos: elsewhere the order may be another. Both measures "
        "look at photos with holes, which the model was not trained on."
    )
    return "\n".join(lines) + "\n"


def _both(results: Results, name: str) -> float:
    """Mean gain over random orders, deletion and insertion together."""
    return sum(float(results.gain(name, "random", kind).mean()) for kind in KINDS)


def _row(results: Results, name: str) -> str:
    cells = [_said(results.values(name, kind)) for kind in KINDS]
    for rival in RIVALS:
        gains = [_said(results.gain(name, rival, kind), sign=True) for kind in KINDS]
        cells.append("–" if name in (rival, "random") else " / ".join(gains))
    found = results.sanity.get(name, {})
    if results.sanity:
        cells += [f"{found[k]:.2f}" if k in found else "–" for k in ("other_class", "weights")]
    title = f"*{TITLES[name]}*" if name in TITLES else f"[`{name}`](#{name})"
    return f"| {title} | {len(results.areas[name])} | {' | '.join(cells)} |"


def _winners(results: Results, names: list[str]) -> list[str]:
    """Who is best at each kind, by how much over the rivals and over the next."""
    lines = []
    for kind in KINDS:
        mean = {name: float(results.gain(name, "random", kind).mean()) for name in names}
        best, *others = sorted(names, key=lambda name: -mean[name])
        parts = [
            f"{_said(results.gain(best, rival, kind), sign=True)} over {TITLES[rival]}"
            for rival in RIVALS
        ]
        if others:
            ahead = results.gain(best, others[0], kind)
            parts.append(f"{_said(ahead, sign=True)} over the next, `{others[0]}`")
        lines.append(f"- Best at {kind}: `{best}`, by {', '.join(parts)}.")
    return lines


def _said(values: np.ndarray, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    mean, low, high = interval(values)
    return f"{mean:{form}} [{low:{form}}, {high:{form}}]"
