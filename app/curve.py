"""A deletion curve as a small drawing: the map's order, random orders, the centre first."""

from __future__ import annotations

from html import escape

import numpy as np

from app.texts import say, tell
from explainers.measures import Curve, Measure
from explainers.models.labels import short

WIDTH, HEIGHT = 300, 150
LEFT, RIGHT, TOP, BOTTOM = 34, 8, 8, 20
"""Room around the plot for its numbers, in the drawing's units."""

TOPS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Where the axis of probabilities may end."""


def drawing(lang: str, measure: Measure) -> str:
    """The curves of a full measure as inline SVG with a legend, and the areas in words."""
    centre, random = measure.centre, measure.random
    if centre is None or not random:
        raise ValueError("the curves of random orders were not computed; measure with full=True")
    values = np.array([curve.values for curve in random])
    mean, deviation = values.mean(0), values.std(0, ddof=1)
    low, high = np.clip(mean - deviation, 0, 1), np.clip(mean + deviation, 0, 1)
    most = max(float(c.max()) for c in (high, measure.curve.values, centre.values))
    top = next(t for t in TOPS if most <= t + 1e-6)
    shares = random[0].shares
    around = [*zip(shares, high, strict=True), *zip(shares[::-1], low[::-1], strict=True)]
    words = tell(lang, measure.comparison)
    picture = (
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{escape(words, quote=True)}'>"
        f"{_axes(top)}"
        f"<polygon class='vs-band' points='{_points(around, top)}'/>"
        f"{_line('vs-random', Curve(shares, mean), top)}"
        f"{_line('vs-centre', centre, top)}{_line('vs-own', measure.curve, top)}</svg>"
    )
    legend = "".join(
        f"<span class='vs-{name}'><i></i>{escape(say(lang, f'curve_{name}'))}</span>"
        for name in ("own", "random", "centre")
    )
    axes = say(lang, "curve_axes", label=short(measure.target.label))
    return (
        f"<div class='vs-curve'><p class='vs-state'>{escape(axes)}</p>{picture}"
        f"<p class='vs-legend'>{legend}</p><p>{escape(words)}</p></div>"
    )


def _axes(top: float) -> str:
    lines = []
    for part in (0.0, 0.5, 1.0):
        y, x = _y(part * top, top), _x(part)
        lines.append(f"<path class='vs-grid' d='M{LEFT},{y:.1f}H{WIDTH - RIGHT}'/>")
        lines.append(
            f"<text x='{LEFT - 5}' y='{y + 3:.1f}' text-anchor='end'>{part * top:g}</text>"
        )
        anchor = "end" if part == 1 else "middle"
        lines.append(
            f"<text x='{x:.1f}' y='{HEIGHT - 5}' text-anchor='{anchor}'>{100 * part:.0f} %</text>"
        )
    return "".join(lines)


def _line(css: str, curve: Curve, top: float) -> str:
    points = _points(list(zip(curve.shares, curve.values, strict=True)), top)
    return f"<polyline class='{css}' points='{points}'/>"


def _points(places: list[tuple[float, float]], top: float) -> str:
    return " ".join(f"{_x(share):.1f},{_y(value, top):.1f}" for share, value in places)


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(value: float, top: float) -> float:
    return TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM)
