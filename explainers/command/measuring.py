"""`--measure`: how well each map's order of patches does, for index.csv and the summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from explainers.command.index import MEASURES, Row
from explainers.command.plan import Plan
from explainers.heatmap import HeatMap
from explainers.measures import measure
from explainers.models.errors import ModelError
from explainers.trace import Trace

HELD_AGAINST = ("random", "random_sd", "centre")
"""Mean and standard deviation of ten random orders; the photo's middle first."""


def measured_columns(methods: Sequence[str]) -> tuple[str, ...]:
    """The columns that measuring these methods' maps fills: areas under the curves."""
    return tuple(f"{kind}_{name}" for kind in MEASURES for name in (*HELD_AGAINST, *methods))


def measured(heat: HeatMap, trace: Trace, target: int | None, note: Callable[[str], None]) -> Row:
    """The areas of one map, and those it is held against; why not, as a note."""
    row: Row = {}
    for kind in MEASURES:
        try:
            found = measure(heat, trace, kind, target=target, full=True)
        except ModelError as error:
            note(str(error))
            break
        mean, deviation = found.random_area
        areas = (mean, deviation, found.centre.area if found.centre else 0.0, found.area)
        for name, area in zip((*HELD_AGAINST, heat.method), areas, strict=True):
            row[f"{kind}_{name}"] = f"{area:.6f}"
    return row


def measured_lines(rows: Iterable[Row], plan: Plan) -> list[str]:
    """The means over all measured photos, a line for each method; none without `--measure`."""
    if not plan.measure:
        return []
    rows = list(rows)
    found = []
    for name in (*plan.methods, "random", "centre"):
        cells = [[row.get(f"{kind}_{name}", "") for kind in MEASURES] for row in rows]
        pairs = [tuple(map(float, pair)) for pair in cells if all(pair)]
        if pairs:
            deletion, insertion = (sum(each) / len(pairs) for each in zip(*pairs, strict=True))
            found.append(f"{deletion:8.3f} {insertion:9.3f}  {name} ({len(pairs)} photos)")
    return ["Deletion (lower is better) and insertion (higher), means:", *found] if found else []
