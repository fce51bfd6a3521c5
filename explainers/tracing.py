"""`trace`: one forward pass of a model over photos, with all that explanations need kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch

from explainers.acceptance import accept
from explainers.capture import Capture
from explainers.gradients import Graph, forward_with_graph
from explainers.image import Photo
from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from explainers.sentence import Sentence
from explainers.tensors import Tensors, to_keep
from explainers.trace import Trace


def trace(
    model: VisionModel,
    photos: Photo | Sequence[Photo],
    keep: Collection[str] = (),
    gradients: bool = False,
) -> Trace:
    """Run the model once, unchanged, and keep q and k of each block (and what ``keep`` names).

    gradients: of a single photo, keep the pass's graph until the first gradient method takes
    it, which then runs the model no second time; meanwhile the graph costs memory.
    The first trace of a model checks that attention, computed again, is what the model used;
    where it is not, `VisionModel.supports` refuses attention methods with what was found.
    """
    photos = _photos(photos)
    check = model.attention_check is None
    graph: Graph | None = None
    with torch.inference_mode(False), torch.no_grad():
        pixels, geometries = model.prepare(photos)
        if gradients and len(photos) == 1:
            graph = forward_with_graph(model, pixels, also=to_keep(keep), check=check)
            capture, logits = graph.capture, graph.answer.detach()
        else:
            capture = Capture(model.adapter, keep=to_keep(keep), check=check)
            with capture:
                logits = model.logits(pixels)
    if capture.draws:
        raise ModelError(
            Sentence(
                "model_draws",
                "The model drops numbers at random although it is in evaluation mode, so every "
                "answer is another; switch dropout off in its forward pass.",
            )
        )
    if check:
        model.attention_check = accept(model, capture, pixels)
    adapter, size = model.adapter, pixels.shape[-2:]
    seen = capture.calls if model.attention_check else []
    calls: list[Any] = [adapter.on_grid(i, call.alone(), size) for i, call in enumerate(seen)]
    answer = logits if model.classes else None
    kept = {place: adapter.as_tokens(tensor.detach()) for place, tensor in capture.tensors.items()}
    return Trace(
        model, photos, geometries, pixels, answer, calls, Tensors(model, pixels, kept), graph
    )


def _photos(given: Any) -> list[Photo]:
    """The photos that were given, one or several; TypeError for anything else."""
    alone = isinstance(given, (Photo, str, bytes)) or not isinstance(given, Iterable)
    photos = [given] if alone else list(given)
    for photo in photos:
        if not isinstance(photo, Photo):
            raise TypeError(
                Sentence(
                    "trace_photo",
                    "A Photo, or a list of them, was expected, and {kind} came; read it with "
                    "load_photo first.",
                    kind=type(photo).__name__,
                )
            )
    if not photos:
        raise ValueError(
            Sentence("trace_none", "At least one Photo was expected, and none came; give one.")
        )
    return photos
