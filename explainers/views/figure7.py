"""The ViT paper's figure 7: filters, positions, and how far the heads of each block look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from explainers.image import Photo
from explainers.models.vision_model import VisionModel
from explainers.sentence import Sentence
from explainers.views.filters import FilterGrid, principal
from explainers.views.heads import HeadFigures, Progress, head_figures_of
from explainers.views.positions import PositionSimilarity, position_similarity

COMPONENTS = 28
"""As many components as the paper shows."""

View = TypeVar("View")


@dataclass(frozen=True, eq=False)
class Figure7:
    """What the figure shows of a model; in the place of what the model lacks, the reason.

    photos: those that the heads' figures are the mean of. size: (height, width) in pixels of
    the model's input, which distances are measured in.
    """

    model: VisionModel
    photos: tuple[Photo, ...]
    size: tuple[int, int]
    filters: FilterGrid | Sentence
    positions: PositionSimilarity | Sentence
    heads: HeadFigures | Sentence

    @property
    def empty(self) -> bool:
        """Whether the model has none of the three."""
        views = (self.filters, self.positions, self.heads)
        return all(isinstance(view, Sentence) for view in views)


def figure7(
    vit: VisionModel,
    photos: Sequence[Photo],
    components: int = COMPONENTS,
    progress: Progress | None = None,
) -> Figure7:
    """The three panels of figure 7 (Dosovitskiy et al., ICLR 2021), and the heads' entropy.

    photos: the paper took 128; distances of one photo alone depend on it. progress(done,
    total): called after each photo; cancels by raising.
    """
    return Figure7(
        vit,
        tuple(photos),
        vit.preprocessing.size,
        _or_reason(lambda: principal(vit, components)),
        _or_reason(lambda: position_similarity(vit)),
        _or_reason(lambda: head_figures_of(vit, photos, progress)),
    )


def _or_reason(make: Callable[[], View]) -> View | Sentence:
    try:
        return make()
    except ValueError as error:
        if error.args and isinstance(error.args[0], Sentence):
            return error.args[0]
        raise
