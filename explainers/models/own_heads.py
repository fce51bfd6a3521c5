"""Heads that someone put in the place of a timm model's own, in a module or in a weights file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor, nn

from explainers.models.errors import ModelError
from explainers.sentence import Sentence

MOST_NAMED = 3


def head_width(module: Any) -> int:
    """How many numbers a timm module answers with; 0 where it answers with its features.

    Read from the head itself: one that was replaced does not change ``num_classes``.
    """
    head = getattr(module, "head", None)
    if isinstance(head, nn.Identity):
        return 0
    linear = [m for m in head.modules() if isinstance(m, nn.Linear)] if head is not None else []
    return linear[-1].out_features if linear else int(module.num_classes)


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
