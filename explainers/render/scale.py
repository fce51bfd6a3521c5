"""From raw numbers to colour levels: the one step between a map's values and its picture."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from explainers.heatmap import HeatMap
from explainers.render.colours import LEVELS
from explainers.sentence import Sentence

RANGES = ("zero", "minmax", "percentile")
"""zero: 0…max or −m…m. minmax: min…max. percentile: the strongest 1 % share the last colour."""

CLIPPED = 99.0
"""The percentile of |v| that gets the last colour in the percentile range."""


@dataclass(frozen=True)
class Scale:
    """Which value gets the first and which the last colour.

    low, high: in the map's own units, low ≤ high. note: what a reader must know when this
    is not the plain range from zero (None when it is).
    """

    low: float
    high: float
    signed: bool
    note: Sentence | None = None

    def levels(self, values: np.ndarray) -> np.ndarray:
        """Colour levels 0..254 of ``values`` (uint8, same shape); NaN becomes level 0.

        Without any extent (all zero) everything sits at zero: the middle of a signed scale,
        the bottom of an unsigned one.
        """
        span = self.high - self.low
        if span <= 0:
            return np.full(values.shape, LEVELS // 2 if self.signed else 0, dtype=np.uint8)
        share = np.nan_to_num((values - self.low) / span, nan=0.0)
        np.clip(share, 0, 1, out=share)
        return np.rint(share * (LEVELS - 1)).astype(np.uint8)


def make_scale(heat: HeatMap, limit: float | None = None, scale: str = "zero") -> Scale:
    """The scale a map is drawn with.

    limit: the value of the last colour, to give several maps one scale; None takes the map's
    own largest |v|. A flat map keeps the range from zero whatever ``scale`` says, so that
    rounding noise is never stretched into a pattern. Signed maps keep zero in the middle, so
    minmax changes nothing for them. ValueError for a limit that is not positive and finite,
    for an unknown range, and for a limit together with a range of the map's own.
    """
    if scale not in RANGES:
        raise ValueError(
            Sentence(
                "scale_unknown",
                "The colour range must be one of {known}; {given!r} was given.",
                known=", ".join(RANGES),
                given=scale,
            )
        )
    if limit is not None:
        if not (isinstance(limit, numbers.Real) and math.isfinite(limit) and limit > 0):
            raise ValueError(
                Sentence(
                    "limit_not_positive",
                    "The limit of the colours must be a number above 0; {given!r} was given.",
                    given=limit,
                )
            )
        if scale != "zero":
            raise ValueError(
                Sentence(
                    "limit_and_scale",
                    "A shared limit and the map's own range {scale!r} exclude each other; "
                    "give one of them.",
                    scale=scale,
                )
            )
    values = heat.values.astype(np.float64)
    high = float(limit) if limit is not None else float(np.abs(values).max())
    low = -high if heat.signed else 0.0
    note = None
    if scale == "percentile" and not heat.flat:
        # An almost empty map has no 99th percentile to stretch to; it keeps its maximum.
        high = float(np.percentile(np.abs(values), CLIPPED)) or high
        low = -high if heat.signed else 0.0
        note = Sentence(
            "scale_percentile",
            "The last colour stands for {high} and more (99 % of the values lie below).",
            high=f"{high:.3g}",
        )
    elif scale == "minmax" and not heat.flat and not heat.signed:
        low, high = float(values.min()), float(values.max())
        note = Sentence(
            "scale_minmax",
            "The colours run from this map's smallest value {low} to its largest {high}: "
            "the first colour is not zero.",
            low=f"{low:.3g}",
            high=f"{high:.3g}",
        )
    return Scale(low, high, heat.signed, note)


def shared_limit(heats: Iterable[HeatMap]) -> float | None:
    """The largest |v| over several maps, to draw them on one scale; None when all are zero."""
    largest = max((float(np.abs(heat.values).max()) for heat in heats), default=0.0)
    return largest or None


def channel(heat: HeatMap, index: int) -> HeatMap:
    """One of the three channels of an rgb map, as a map of its own."""
    return replace(heat, values=heat.values[..., index], kind="grid")
