"""What stands below figure 7, what made it, and the paper it owes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explainers.registry import find_method
from explainers.render.layout import letter
from explainers.sentence import Sentence
from explainers.version import __version__
from explainers.views.figure7 import Figure7
from explainers.views.filters import FilterGrid
from explainers.views.positions import PositionSimilarity


def about(found: Figure7) -> dict[str, Any]:
    """What made the figure, and the numbers of its charts."""
    heads = found.heads
    numbers = {} if isinstance(heads, Sentence) else {k: _listed(v) for k, v in vars(heads).items()}
    return {
        "figure": "figure7",
        "model": found.model.name,
        "loaded_weights_sha256": found.model.weights_hash,
        "size": list(found.size),
        "photos_sha256": [photo.sha256 for photo in found.photos],
        "heads": numbers,
        "vitscope": __version__,
    }


def _listed(values: np.ndarray) -> list[list[float | None]]:
    """JSON knows no NaN: None for a head that is not there."""
    return [[None if math.isnan(value) else value for value in row] for row in values.tolist()]


def bibtex() -> str:
    """The paper's entry: that of the method which the paper brought."""
    return find_method("attention").bibtex


def caption(found: Figure7, letters: bool = True) -> str:
    """What stands below the figure, in English: each panel, the photos, the model, the tool."""
    parts = []
    for index, text in enumerate(_explained(found)):
        parts.append(f"({letter(index)}) {text}" if letters else text)
    model = f"Model: {found.model.name} (weights {found.model.weights_hash[:8]})."
    return " ".join([*parts, model, f"Made with ViTScope {__version__}."])


def _explained(found: Figure7) -> list[str]:
    filters, positions, heads = found.filters, found.positions, found.heads
    texts = []
    if isinstance(filters, FilterGrid):
        share = 0.0 if filters.variance is None else 100 * float(filters.variance.sum())
        texts.append(
            f"The first {len(filters.filters)} principal components of the {filters.total} patch "
            f"filters, together {share:.0f} % of their variance; each scaled on its own."
        )
    else:
        texts.append(f"No filters: {filters}")
    if isinstance(positions, PositionSimilarity):
        texts.append(
            "Cosine similarity of each patch's position embedding with every other patch's."
        )
    else:
        texts.append(f"No positions: {positions}")
    if isinstance(heads, Sentence):
        return [*texts, f"No distances: {heads}", f"No entropies: {heads}"]
    photos = "1 photo" if len(found.photos) == 1 else f"{len(found.photos)} photos"
    return [
        *texts,
        f"Mean attention distance of each head in pixels of the input ({found.size[0]}×"
        f"{found.size[1]}), between patches alone, over {photos}.",
        "Entropy of each head's attention as a share of that of uniform attention, over the same.",
    ]
