"""The logit lens: what each block would already answer, if the model ended there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from explainers.models.errors import ModelError
from explainers.registry import YES, Support
from explainers.sentence import Sentence
from explainers.trace import Trace


@dataclass(frozen=True, eq=False)
class Lens:
    """Row 0 is what enters the first block, row b + 1 what leaves block b.

    similarity: cosine in −1..1 of the deciding vector (CLS; the mean of the tokens that the
    model averages) to the last one, float64 (blocks + 1,); the last is 1. logits: the model's
    own norm, pooling and head on these tokens (blocks + 1, classes), the last row being the
    model's answer; None where ``support`` says why.
    """

    similarity: np.ndarray
    logits: Tensor | None
    support: Support

    @property
    def probabilities(self) -> Tensor | None:
        """softmax of the logits, (blocks + 1, classes)."""
        return None if self.logits is None else self.logits.softmax(-1)


@torch.no_grad()
def lens(trace: Trace) -> Lens:
    """Read each block's tokens as if they were the last. nostalgebraist, "interpreting GPT: the
    logit lens", 2020. ModelError where the features between the blocks are not read."""
    tokens = [trace.features("input", block) for block in range(trace.depth)]
    tokens.append(trace.features("output", trace.depth - 1))
    weights = trace.model.adapter.decision_weights(trace.tokens)
    # on the CPU, as there is no float64 on some accelerators: (blocks + 1, width)
    vectors = torch.stack([weights @ stream.cpu().double() for stream in tokens])
    similarity = torch.nn.functional.cosine_similarity(vectors, vectors[-1:], dim=-1)
    support = lens_support(trace)
    stages = trace.model.adapter.stages() if support else None
    logits = None if stages is None else torch.cat([stages.head(each[None]) for each in tokens])
    return Lens(similarity.numpy(), logits, support)


@torch.no_grad()
def patch_answers(trace: Trace, block: int) -> Tensor:
    """What the head would say of each patch alone after a block: probabilities (patches, classes).

    Each patch's token is read as if the model had pooled nothing else. ModelError where the
    head cannot be asked about a vector that the model did not pool itself.
    """
    for support in (_classes(trace), trace.model.adapter.readout_support()):
        if not support:
            raise ModelError(support.reason)
    tokens = trace.features("output", block)[trace.prefix :]  # (patches, width)
    return trace.model.adapter.read_out(tokens[:, None]).softmax(-1)


def lens_support(trace: Trace) -> Support:
    """Whether a block's tokens can be answered by the model's own end."""
    support = _classes(trace)
    if support and trace.model.adapter.stages() is None:
        support = trace.model.adapter.readout_support()
        if support:
            support = Support(False, _no_stages(trace.model.adapter.family))
    return support


def _classes(trace: Trace) -> Support:
    return YES if trace.model.classes else Support(False, _no_head())


def _no_head() -> Sentence:
    return Sentence(
        "lens_no_head",
        "This model has no classification head, so no block can be asked for a class.",
    )


def _no_stages(family: str) -> Sentence:
    return Sentence(
        "lens_no_stages",
        "The end of {family} models is not known piece by piece, so it cannot be run on a "
        "block's tokens.",
        family=family,
    )
