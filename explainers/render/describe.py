"""A heat map in words, from its numbers: for readers who cannot see the colours."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from explainers.heatmap import HeatMap
from explainers.sentence import Sentence

REGIONS = (
    (
        Sentence("region_upper_left", "upper left"),
        Sentence("region_top", "top"),
        Sentence("region_upper_right", "upper right"),
    ),
    (
        Sentence("region_left", "left"),
        Sentence("region_centre", "centre"),
        Sentence("region_right", "right"),
    ),
    (
        Sentence("region_lower_left", "lower left"),
        Sentence("region_bottom", "bottom"),
        Sentence("region_lower_right", "lower right"),
    ),
)
"""The nine parts of the photo, each a third of its height and width."""

SIDE = 360
"""The longer side the map is counted at, in pixels; a multiple of 3."""

EVEN = 1.1
"""Below this many times its even share, a part does not stand out."""


@dataclass(frozen=True)
class Part:
    """One ninth of the photo: its name, its share of the map's total (0..1), and the share that
    it would have of a map that is the same everywhere."""

    name: Sentence
    share: float
    even: float


def strongest_part(heat: HeatMap, sign: int = 1) -> Part | None:
    """The ninth with the largest share of the positive (sign 1) or negative (−1) total.

    Shares count the area each cell covers of the photo; cells outside it and what the model
    did not see count nothing. None when there is nothing of that sign.
    """
    ratio = SIDE / max(heat.photo.height, heat.photo.width)
    height = 3 * max(1, round(heat.photo.height * ratio / 3))
    width = 3 * max(1, round(heat.photo.width * ratio / 3))
    small = replace(heat.geometry, photo_size=(height, width))
    spread = small.spread(heat.values.astype(np.float64))
    values = np.clip(np.nan_to_num(spread) * sign, 0, None)
    largest = values.max()
    if largest <= 0:
        return None
    values /= largest  # sums of very large or very small numbers stay finite
    parts, seen = (
        each.reshape(3, height // 3, 3, width // 3).sum(axis=(1, 3))  # (3, 3)
        for each in (values, ~np.isnan(spread))
    )
    row, column = np.unravel_index(int(parts.argmax()), parts.shape)
    share, even = (float(each[row, column] / each.sum()) for each in (parts, seen))
    return Part(REGIONS[row][column], share, even)


def alt_text(heat: HeatMap) -> Sentence:
    """What the map shows, in one sentence made from its numbers.

    The values of the sentence are sentences themselves where they are words (the region, the
    additions), so that a page can translate them too.
    """
    unseen = _unseen(heat)
    if heat.kind == "rgb":
        return Sentence(
            "alt_rgb",
            "{title}: places of like colour are alike to the model{unseen}.",
            title=heat.title,
            unseen=unseen,
        )
    if heat.flat:
        return Sentence(
            "alt_flat",
            "{title}: the map is flat, no place stands out{unseen}.",
            title=heat.title,
            unseen=unseen,
        )
    best = strongest_part(heat)
    worst = strongest_part(heat, sign=-1) if heat.signed else None
    if best and worst:
        return Sentence(
            "alt_signed",
            "{title}: most of what counts for it is at the {best} ({best_share} % of the "
            "positive total), most of what counts against at the {worst} ({worst_share} % of "
            "the negative total); each is 11 % of the photo{unseen}.",
            title=heat.title,
            best=best.name,
            best_share=_percent(best.share),
            worst=worst.name,
            worst_share=_percent(worst.share),
            unseen=unseen,
        )
    if best and best.share < EVEN * best.even:
        return Sentence(
            "alt_even",
            "{title}: spread about evenly, no part of the photo stands out{prefix}{unseen}.",
            title=heat.title,
            prefix=_prefix(heat),
            unseen=unseen,
        )
    if best:
        return Sentence(
            "alt_strongest",
            "{title}: strongest at the {region}, {share} % of the total in 11 % of the photo"
            "{prefix}{unseen}.",
            title=heat.title,
            region=best.name,
            share=_percent(best.share),
            prefix=_prefix(heat),
            unseen=unseen,
        )
    if worst:
        return Sentence(
            "alt_against",
            "{title}: nothing counts for it; most of what counts against is at the {region}, "
            "{share} % of the total in 11 % of the photo{unseen}.",
            title=heat.title,
            region=worst.name,
            share=_percent(worst.share),
            unseen=unseen,
        )
    return Sentence(
        "alt_nothing",
        "{title}: nothing of the map lies on the photo{unseen}.",
        title=heat.title,
        unseen=unseen,
    )


def _percent(share: float) -> str:
    """A share in percent without decimals; "<1" where it would round to nothing."""
    return "<1" if 0 < share < 0.005 else f"{100 * share:.0f}"


def _prefix(heat: HeatMap) -> Sentence | str:
    if heat.prefix_share is None:
        return ""
    return Sentence(
        "alt_prefix",
        "; {share} % on tokens that are no part of the photo",
        share=_percent(heat.prefix_share),
    )


def _unseen(heat: HeatMap) -> Sentence | str:
    unseen = 1 - heat.geometry.seen_share
    if unseen < 5e-4:
        return ""
    return Sentence("alt_unseen", "; {share} % of the photo was not seen", share=_percent(unseen))
