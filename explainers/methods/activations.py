"""Patch features inside a block, and their gradients: what the CAM methods weigh."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.attention_call import exact
from explainers.gradients import class_score, gradient_pass
from explainers.heatmap import Finding
from explainers.methods.attention_gradients import shared_gradients
from explainers.methods.scoring import Objective, Progress
from explainers.models.errors import ModelError
from explainers.registry import Parameter
from explainers.sentence import Sentence
from explainers.trace import Trace

BLOCK = Parameter("block", -1, "block", "Which block, counted from 0; -1 is the last.")
AT = Parameter(
    "at",
    "auto",
    "choice",
    "Where in the block: what its attention reads (norm1) or its output; auto takes the latest "
    "of the two at which patches still count.",
    choices=("auto", "norm1", "output"),
)


def weighed(
    trace: Trace, objective: Objective, progress: Progress, block: int, at: str
) -> tuple[Tensor, Tensor]:
    """Features A of the patches and ∂y/∂A, each (h·w, width); prefix tokens left out.

    The last block's come from the gradient pass that all methods share; another block's cost
    a pass of their own. Raises ModelError for a place after which no patch reaches the answer:
    where CLS decides, the last block's output.
    """
    place = _place(trace, block, at)
    if block == trace.depth - 1:
        found = shared_gradients(trace, objective, progress).tensors
    else:
        score = class_score(objective.target, objective.against)
        progress(0, 1)
        found = gradient_pass(trace.model, trace.pixels, score, block=block).tensors
        progress(1, 1)
    pairs = {n: (exact(a[trace.prefix :]), exact(g[trace.prefix :])) for n, (a, g) in found.items()}
    if place == "output" and not pairs["output"][1].any() and _counts(pairs.get("norm1")):
        if at == "output":
            raise _cut_off(block)
        place = "norm1"
    return pairs[place]


def features(trace: Trace, block: int, at: str, counting: bool = False) -> Tensor:
    """Features of the patches alone, (h·w, width): kept by the trace, or one more run.

    counting: raises ModelError, as `weighed` does, where no patch reaches the answer.
    """
    place = _place(trace, block, at)
    if counting and place == "output" and latest(trace, block) != "output":
        raise _cut_off(block)
    return exact(trace.features(place, block)[trace.prefix :])


def latest(trace: Trace, block: int) -> str:
    """The latest point of a block at which patches still count towards the answer."""
    return trace.model.adapter.last_features(block)


def _place(trace: Trace, block: int, at: str) -> str:
    """The tensor that is meant; ModelError where the model's is not read."""
    adapter = trace.model.adapter
    support = adapter.block_features_support(block)
    if not support:
        raise ModelError(support.reason)
    place = adapter.last_features(block) if at == "auto" else at
    if place in adapter.feature_names:
        return place
    raise ModelError(
        Sentence(
            "features_place",
            "This model's features are read at {names}, not at {place}; choose at=auto.",
            names=" / ".join(adapter.feature_names),
            place=place,
        )
    )


def _counts(pair: tuple[Tensor, Tensor] | None) -> bool:
    return pair is not None and bool(pair[1].any())


def clipped(trace: Trace, values: Tensor, *notes: Sentence) -> Finding:
    """ReLU of the patches' values (h·w,) on the grid, with a note where nothing is left."""
    if values.max() <= 0 and values.min() < 0:
        nothing = Sentence(
            "cam_all_clipped",
            "Every patch counts against the class here, and this method clips what counts "
            "against it: nothing is left.",
        )
        notes = (*notes, nothing)
    return Finding(torch.relu(values).reshape(trace.grid).cpu().numpy(), notes=notes)


def signs_note(features: Tensor) -> tuple[Sentence, ...]:
    """Said by methods whose weights divide by sums of features that must not change sign."""
    if not (features < 0).any():
        return ()
    return (
        Sentence(
            "cam_unstable",
            "Unstable here: the method was derived for features of at least 0, and {share} % of "
            "these are below 0, so its weights divide by sums that can come near 0.",
            share=round(100 * float((features < 0).float().mean())),
        ),
    )


def _cut_off(block: int) -> ModelError:
    return ModelError(
        Sentence(
            "cam_no_gradient",
            "After block {block} the answer is read from other tokens alone, so no patch counts "
            'at its output (every gradient there is 0); choose at="norm1" (what its attention '
            "reads) or an earlier block.",
            block=block,
        )
    )
