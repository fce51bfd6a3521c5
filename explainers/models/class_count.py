"""How many classes a model has: as many as its real answer has numbers, whatever it says of itself.

A head that someone put in the place of a model's own changes none of the model's settings.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from explainers.models.errors import ModelError
from explainers.models.quantised import is_quantised
from explainers.models.vision_model import VisionModel

_LIBRARIES = ("explainers", "timm", "torchvision", "transformers")


def count_classes(vit: VisionModel) -> int:
    """The classes of a model that was just wrapped; 0 where it answers with features.

    One linear layer in a library's own class needs no pass. Where a pass cannot be run (in
    training mode it could change the model; the size may be one it refuses), its head's word
    is taken.
    """
    adapter, rounded = vit.adapter, is_quantised(vit.module)
    known = not adapter.classes or adapter.head is None or _as_built(vit.module, adapter.head)
    if known and not rounded:
        return adapter.classes
    first = next(vit.module.parameters())
    if vit.module.training or first.is_meta:
        return adapter.classes
    pixels = torch.zeros(1, 3, *vit.preprocessing.size, device=first.device, dtype=first.dtype)
    try:
        with torch.inference_mode(False), torch.no_grad():
            answer: Tensor = vit.logits(pixels)
    except ModelError:
        if rounded:  # some designs do not run at all any more
            raise
        return adapter.classes
    if not adapter.classes:
        return 0
    return answer.shape[1] if answer.dim() == 2 else adapter.classes


def _as_built(module: nn.Module, head: nn.Module) -> bool:
    own = type(module).__module__.partition(".")[0] in _LIBRARIES
    return own and type(head) is nn.Linear
