"""The learned patch-embedding filters: the first thing a Vision Transformer looks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explainers.models.vision_model import VisionModel
from explainers.sentence import Sentence


@dataclass(frozen=True, eq=False)
class FilterGrid:
    """Filters as small RGB pictures.

    filters: float64 (count, ph, pw, 3), raw weights or unit-length components; each is scaled
    for display on its own. variance: the share of the filters' total variance each component
    explains (count,), largest first; None for raw filters. total: how many filters the model
    has.
    """

    filters: np.ndarray
    variance: np.ndarray | None
    total: int


def raw(vit: VisionModel) -> FilterGrid:
    """Every filter as the model learned it, in channel order.

    ValueError with the model's own reason where it has no filters over RGB patches.
    """
    filters = _filters(vit)
    return FilterGrid(filters, None, len(filters))


def principal(vit: VisionModel, count: int = 28) -> FilterGrid:
    """The first ``count`` principal components of the filters, or all where there are fewer.

    The filters are centred (their mean filter taken off) and decomposed by SVD; components are
    unit-length filters in order of explained variance, their sign fixed so that the entry of
    largest magnitude is positive. ViT paper (arXiv 2010.11929), figure 7 left. ValueError as
    for `raw`, and for a count below 1.
    """
    if count < 1:
        raise ValueError(
            Sentence(
                "components_too_few",
                "The number of components must be at least 1; {count} was given.",
                count=count,
            )
        )
    filters = _filters(vit)
    total, patch = len(filters), filters.shape[1:]
    matrix = filters.reshape(total, -1)  # (D, ph·pw·3)
    matrix = matrix - matrix.mean(axis=0)
    _, singular, components = np.linalg.svd(matrix, full_matrices=False)
    # Centring takes one direction away from D filters; what is left over is rounding noise.
    count = min(count, max(1, min(total - 1, matrix.shape[1])))
    components, power = components[:count], singular**2
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(count), largest])
    components = components * signs[:, None]
    variance = power[:count] / (power.sum() or 1.0)
    return FilterGrid(components.reshape(count, *patch), variance, total)


def _filters(vit: VisionModel) -> np.ndarray:
    """The filters as float64 (D, ph, pw, 3), or the adapter's reason why there are none."""
    support = vit.adapter.filters_support()
    if not support:
        raise ValueError(support.reason)
    filters = vit.adapter.patch_filters().detach().cpu().double().numpy()  # (D, 3, ph, pw)
    return np.ascontiguousarray(filters.transpose(0, 2, 3, 1))
