"""The names of a loaded model's classes: its own, or a table of as many; and what is said of it."""

from __future__ import annotations

import logging

from explainers.models.errors import ModelError
from explainers.models.hub import CONFIG
from explainers.models.labels import as_labels, imagenet_labels, labels_unknown
from explainers.models.recipe import Recipe
from explainers.sentence import Sentence

TEXT_TOWERS = ("clip", "pe_core")
"""Parts of the names of architectures trained against texts, whose head is an embedding."""

_logger = logging.getLogger(__name__)


def head_labels(recipe: Recipe, classes: int) -> tuple[tuple[str, ...] | None, Sentence | None]:
    """What is written with the model, else ImageNet's table of that many classes; and a note."""
    labels = _written(recipe, classes) if recipe.labels else imagenet_labels(classes)
    if labels is None and any(word in recipe.architecture for word in TEXT_TOWERS):
        return None, Sentence(
            "embedding_head",
            "This model answers with {width} numbers made to be compared with a text's, not "
            "with classes, so it is shown as a model without a head.",
            width=classes,
        )
    if labels is None:
        return None, labels_unknown(classes)
    if recipe.labels or not recipe.foreign:
        return labels, None
    return labels, Sentence(
        "labels_assumed",
        "The weights do not name their {classes} classes; from that number they are taken to be "
        "ImageNet's. A label file corrects it.",
        classes=classes,
    )


def _written(recipe: Recipe, classes: int) -> tuple[str, ...] | None:
    """The labels in the model's own configuration, where there is one a class."""
    try:
        labels = as_labels(recipe.labels, CONFIG)
    except ModelError as error:
        _logger.warning("%s", error)
        return None
    return labels if len(labels) == classes else None
