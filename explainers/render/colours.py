"""Colour maps that stay readable for colour-blind eyes, as lookup tables."""

from __future__ import annotations

from functools import lru_cache

import matplotlib
import numpy as np

from explainers.sentence import Sentence

UNSIGNED = ("viridis", "cividis", "magma", "inferno")
"""For maps without negative values: brightness rises evenly from zero to the limit."""

SIGNED = ("RdBu_r", "PuOr_r", "coolwarm")
"""For maps with a sign: zero is neutral, red or orange counts for, blue or purple against."""

LEVELS = 255
"""An odd number of colours, so that zero has the middle one to itself in a signed map."""


def default_colours(signed: bool) -> str:
    """The colour map used when nobody chose one."""
    return SIGNED[0] if signed else UNSIGNED[0]


def check_colours(name: str | None, signed: bool) -> str:
    """``name``, or the default for None; ValueError lists the names that fit the map.

    A diverging map on unsigned numbers would show a zero that is not there, and the other
    way round would hide one, so each list is open to its own kind of map only.
    """
    known = SIGNED if signed else UNSIGNED
    if name is None:
        return known[0]
    if name in known:
        return name
    names = ", ".join(known)
    if signed:
        raise ValueError(
            Sentence(
                "colours_not_signed",
                "The colours {name!r} do not fit a map with positive and negative values; "
                "choose one of: {known}.",
                name=name,
                known=names,
            )
        )
    raise ValueError(
        Sentence(
            "colours_not_unsigned",
            "The colours {name!r} do not fit a map that starts at zero; choose one of: {known}.",
            name=name,
            known=names,
        )
    )


@lru_cache(maxsize=16)
def colour_table(name: str) -> np.ndarray:
    """The colours of ``name`` from lowest to highest: uint8 (255, 3), read-only."""
    colours = matplotlib.colormaps[name].resampled(LEVELS)(np.arange(LEVELS))[:, :3]
    table = np.round(colours * 255).astype(np.uint8)
    table.setflags(write=False)
    return table
