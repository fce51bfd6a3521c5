"""Where several maps of one photo agree: the same places first, or not.

Maps of different models lie on different grids. They are compared cell by cell on the coarsest of
them: the cells of it that every map covers. A finer map's value there is the mean of its own
cells, weighted by the area they share with the cell on the photo, which is exact, since a map is
constant within each of its cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from explainers.heatmap import HeatMap
from explainers.image import Geometry
from explainers.methods.ranks import ranks, spearman
from explainers.sentence import Sentence

STRONGEST = 0.2
"""The part of the cells whose overlap is told: the strongest fifth."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """Several maps of one photo on one grid, and how far they agree.

    heats: as they were given. geometry: of the common grid (h, w). values: (maps, h, w), float64,
    in each map's own units.
    """

    heats: tuple[HeatMap, ...]
    geometry: Geometry
    values: np.ndarray

    @property
    def resampled(self) -> bool:
        """Whether any map had to be brought to another grid than its own."""
        return any(_lattice(heat) != self.geometry for heat in self.heats)

    @cached_property
    def spearman(self) -> np.ndarray:
        """Spearman's rank correlation of every two maps, (maps, maps), −1..1."""
        return self._pairs(spearman)

    @cached_property
    def overlap(self) -> np.ndarray:
        """How far the strongest fifths coincide, (maps, maps), 0..1: see `overlap`."""
        return self._pairs(overlap)

    @cached_property
    def consensus(self) -> HeatMap:
        """The mean over the maps of each cell's rank, as a map of the photo, 0..1.

        1: the strongest cell of every map. Signed maps are ranked by their value, so what
        counts against comes last.
        """
        h, w = self.values.shape[1:]
        count = h * w
        placed = [(ranks(values) - 1) / max(count - 1, 1) for values in self.values]
        return _made_of(
            self,
            np.mean(placed, axis=0).reshape(h, w),
            "consensus",
            signed=False,
            title="Consensus",
            meaning="Which places the maps put first on average: the mean of their ranks.",
        )

    def _pairs(self, compare: Callable[[np.ndarray, np.ndarray], float]) -> np.ndarray:
        count = len(self.values)
        table = np.eye(count)
        for i in range(count):
            for j in range(i):
                table[i, j] = table[j, i] = compare(self.values[i], self.values[j])
        return table


def agreement(heats: Sequence[HeatMap]) -> Agreement:
    """Bring maps of one photo to one grid; ValueError where they cannot be compared."""
    _check(heats)
    lattices = [_lattice(heat) for heat in heats]
    common = _common(lattices)
    values = [
        _resampled(heat.values.astype(np.float64), lattice, common)
        for heat, lattice in zip(heats, lattices, strict=True)
    ]
    return Agreement(tuple(heats), common, np.stack(values))


def difference(first: HeatMap, second: HeatMap) -> HeatMap:
    """``first`` minus ``second``, two maps of one method and photo, in the method's own units.

    Of two checkpoints with identical weights it is zero in every cell. ValueError for maps of
    different methods, whose difference would have no unit, and where they cannot be compared.
    """
    if first.method != second.method or first.kind != second.kind:
        raise ValueError(
            Sentence(
                "difference_methods",
                "{first} and {second} are in different units, so one cannot be taken from the "
                "other; choose two maps of one method with one resolution.",
                first=first.title,
                second=second.title,
            )
        )
    found = agreement([first, second])
    return _made_of(
        found,
        found.values[0] - found.values[1],
        "difference",
        signed=True,
        title=f"Difference: {first.title}",
        meaning="Red: more in the first map. Blue: more in the second.",
    )


def _made_of(
    found: Agreement, values: np.ndarray, view: str, signed: bool, title: str, meaning: str
) -> HeatMap:
    """A map on the common grid that was computed from all of the compared ones."""
    return replace(
        found.heats[0],
        values=values.astype(_dtype(found.heats)),
        kind="grid",
        signed=signed,
        method=view,
        title=title,
        meaning=meaning,
        geometry=found.geometry,
        target=None,
        against=None,
        parameters={},
        prefix_share=None,
        figures={},
        notes=(),
        provenance={"view": view, "of": [dict(heat.provenance) for heat in found.heats]},
    )


def overlap(first: np.ndarray, second: np.ndarray, share: float = STRONGEST) -> float:
    """Cells among the strongest of both maps, as a part of those among the strongest of either.

    The strongest are the ``share`` of the cells with the largest values (rounded up), and all
    cells that equal the last of them: 1 for maps that put the same places first.
    """
    a, b = (_strongest(values, share) for values in (first, second))
    return float((a & b).sum() / (a | b).sum())


def _strongest(values: np.ndarray, share: float) -> np.ndarray:
    count = min(max(1, math.ceil(share * values.size - 1e-9)), values.size)
    return values >= np.sort(values, axis=None)[-count]


def _check(heats: Sequence[HeatMap]) -> None:
    for heat in heats:
        if heat.kind == "rgb":
            raise ValueError(
                Sentence(
                    "agreement_rgb",
                    "{title} has three values a cell, so its cells have no order; leave it out.",
                    title=heat.title,
                )
            )
    if not heats or any(heat.photo.sha256 != heats[0].photo.sha256 for heat in heats):
        raise ValueError(
            Sentence(
                "agreement_photos",
                "Maps are compared on one and the same photo; {count} maps of {photos} photos "
                "were given.",
                count=len(heats),
                photos=len({heat.photo.sha256 for heat in heats}),
            )
        )


def _dtype(heats: Sequence[HeatMap]) -> np.dtype:
    return np.result_type(*(heat.values for heat in heats))


def _lattice(heat: HeatMap) -> Geometry:
    """The geometry whose cells are the map's own: patches, or pixels of the model's input."""
    if heat.kind == "pixels":
        return replace(heat.geometry, patch=(1, 1))
    (rows, columns), (height, width) = heat.geometry.grid, heat.geometry.patch
    return replace(heat.geometry, input_size=(rows * height, columns * width))


def _common(lattices: Sequence[Geometry]) -> Geometry:
    """The cells of the coarsest lattice that lie on the photo and in every lattice's window."""
    coarsest = max(lattices, key=lambda own: math.prod(_steps(own)))
    kept = []
    for axis in (0, 1):
        edges = [_edges(own, axis) for own in lattices]
        low, high = max(e[0] for e in edges), min(e[-1] for e in edges)
        own = _edges(coarsest, axis)
        dust = 1e-6 * (own[1] - own[0])
        centres = (own[:-1] + own[1:]) / 2
        inside = (own[:-1] >= low - dust) & (own[1:] <= high + dust)
        on_photo = (centres > 0) & (centres < coarsest.photo_size[axis])
        found = np.flatnonzero(inside & on_photo)
        if not len(found):
            raise ValueError(
                Sentence(
                    "agreement_apart",
                    "The models saw parts of the photo that have no patch in common, so their "
                    "maps cannot be compared; use models with more alike crops.",
                )
            )
        kept.append(found)
    (height, width), (top, left) = coarsest.patch, coarsest.offset
    rows, columns = kept
    return replace(
        coarsest,
        offset=(top + int(rows[0]) * height, left + int(columns[0]) * width),
        input_size=(len(rows) * height, len(columns) * width),
    )


def _steps(lattice: Geometry) -> tuple[float, float]:
    """Height and width of a cell in photo pixels."""
    return tuple(  # type: ignore[return-value]
        lattice.patch[axis] * lattice.photo_size[axis] / lattice.resized_size[axis]
        for axis in (0, 1)
    )


def _edges(lattice: Geometry, axis: int) -> np.ndarray:
    """The edges of the cells along an axis in photo pixels: (cells + 1,)."""
    at = np.arange(lattice.grid[axis] + 1) * lattice.patch[axis] + lattice.offset[axis]
    return at * lattice.photo_size[axis] / lattice.resized_size[axis]


def _resampled(values: np.ndarray, lattice: Geometry, common: Geometry) -> np.ndarray:
    """The mean of ``values`` over the area of each common cell; its own cells stay as they are."""
    down, across = (_shares(_edges(lattice, axis), _edges(common, axis)) for axis in (0, 1))
    return down @ values @ across.T


def _shares(fine: np.ndarray, coarse: np.ndarray) -> np.ndarray:
    """Which part of each coarse interval lies in each fine one: (coarse, fine), rows sum to 1."""
    low = np.maximum(coarse[:-1, None], fine[None, :-1])
    high = np.minimum(coarse[1:, None], fine[None, 1:])
    shared = np.clip(high - low, 0, None)
    return shared / shared.sum(axis=1, keepdims=True)
