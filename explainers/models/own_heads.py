"""Heads that someone put in the place of a model's own, in a module or in a weights file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor, nn

from explainers.models.errors import ModelError
from explainers.sentence import Sentence

MOST_NAMED = 3


def timm_head(module: Any) -> nn.Module | None:
    """What makes the class numbers of a module of timm; None where nothing does."""
    try:
        found = module.get_classifier()
    except AttributeError:  # the head that stands there has no part of the name timm looks for
        found = getattr(module, "head", None)
    return found[0] if isinstance(found, tuple) else found


def said_classes(head: nn.Module | None) -> int:
    """How many numbers a head makes, by its last layer with a matrix; 0 where it has none.

    Without a matrix it hands the features on (nn.Identity, dropout, a norm).
    """
    widths = [] if head is None else [_width(layer) for layer in head.modules()]
    return next((width for width in reversed(widths) if width), 0)


def _width(layer: Any) -> int:
    said = getattr(layer, "out_features", getattr(layer, "out_channels", None))
    if isinstance(said, int):
        return said
    return next((p.shape[0] for p in layer.parameters(recurse=False) if p.dim() > 1), 0)


def one_layer_head(
    tensors: Mapping[str, Tensor], classifier: str, own: Collection[str], source: str
) -> tuple[dict[str, Tensor], Sentence | None]:
    """The file's one linear head under the model's name for it, and a note where it had another.

    own: the names of all weights of the model without a head. A file that fits, or differs in
    other ways, is handed back as it is. Raises ModelError for a head of several layers, whose
    order and activations no weights file tells.
    """
    found = dict(tensors)
    extra = sorted(set(found) - set(own))
    if f"{classifier}.weight" in found or not extra or not set(own) <= set(found):
        return found, None
    places = {name.rpartition(".")[0] for name in extra}
    place = places.pop()
    weight = found.get(f"{place}.weight")
    if places or weight is None or weight.ndim != 2 or len(extra) > 2:
        raise ModelError(
            Sentence(
                "weights_own_head",
                "{source} fits the model but for a head of its own ({names}): in which order its "
                "layers run, and what stands between them, is not in the file. Build the model in "
                "Python and hand it to wrap_model.",
                source=source,
                names=", ".join(extra[:MOST_NAMED]) + (" …" if len(extra) > MOST_NAMED else ""),
            )
        )
    for name in extra:
        found[f"{classifier}.{name.rpartition('.')[2]}"] = found.pop(name)
    note = Sentence(
        "head_renamed",
        "The file's head is called {place}; it is taken for one linear layer, with nothing but "
        "dropout before it.",
        place=place,
    )
    return found, note
