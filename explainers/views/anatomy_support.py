"""Which steps of a photo's way can be shown for a model, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from explainers.registry import YES, Support
from explainers.sentence import Sentence
from explainers.trace import Trace
from explainers.views.passing import Passing, learned_prefix
from explainers.windowed_call import WindowedCall


class AnatomySupport:
    """What is known of one photo's pass; ``passing`` makes a pass, where that must be seen."""

    def __init__(self, trace: Trace, passing: Callable[[], Passing]) -> None:
        self.trace = trace
        self._passing = passing

    def of(self, step: str) -> Support:
        """Whether a step of `STEPS` can be shown; falsy with the reason."""
        if step == "projection":
            return self.projection
        if step in ("prefix", "positions"):
            return self.prefix
        if step in ("scores", "softmax", "values"):
            return self.attention
        if step in ("norm", "merge", "mlp"):
            return self.features if self.attention else self.attention
        if step == "blocks":
            return self.features
        if step == "head":
            return self.head
        if step == "logits":
            return self.logits
        return YES

    @cached_property
    def features(self) -> Support:
        """Whether the tensors between the layers are read."""
        adapter = self.trace.model.adapter
        chain = adapter.chain_support()
        return adapter.features_support() if chain else chain

    @cached_property
    def attention(self) -> Support:
        """Whether each block's attention is one table of all tokens."""
        chain = self.trace.model.adapter.chain_support()
        if not chain:
            return chain
        if any(isinstance(call, WindowedCall) for call in self.trace.calls):
            return Support(
                False,
                Sentence(
                    "anatomy_windows",
                    "Blocks of this model ({family}) attend inside windows, where a token has "
                    "scores for its window's tokens only; the Attention page shows them.",
                    family=self.trace.model.adapter.family,
                ),
            )
        return self.trace.model.supports("attention", row=0)

    @cached_property
    def projection(self) -> Support:
        """Whether the patches' projection is a plain linear one that was seen."""
        support = self.trace.model.adapter.filters_support()
        if not support:
            return support
        seen, (rows, columns) = self._passing().embedding, self.trace.grid
        if seen is not None and len(seen) == rows * columns:
            return YES
        return Support(
            False,
            Sentence(
                "anatomy_no_projection",
                "The patch projection of this model was not seen at work (its weights are "
                "resized first, or the photo is padded), so its numbers are not shown.",
            ),
        )

    @cached_property
    def prefix(self) -> Support:
        """Whether the tokens before the patches are known as they are before positions."""
        if not self.projection:
            return self.projection
        if not self.features:
            return self.features
        count = self.trace.prefix
        if not count or learned_prefix(self.trace.model.module, count) is not None:
            return YES
        return Support(
            False,
            Sentence(
                "anatomy_no_prefix",
                "This model does not name its {count} prefix tokens, so they cannot be shown "
                "apart from their positions.",
                count=count,
            ),
        )

    @property
    def logits(self) -> Support:
        """Whether there is a class to answer with."""
        if self.trace.logits is not None:
            return YES
        return Support(
            False,
            Sentence(
                "anatomy_no_logits",
                "This model has no classification head: its answer is the vector of the last "
                "step, so there are no logits.",
            ),
        )

    @cached_property
    def head(self) -> Support:
        """Whether the answer is one linear layer of one vector."""
        if not self.trace.model.classes:
            return self.logits
        if self._passing().pooled is not None:
            return YES
        return Support(
            False,
            Sentence(
                "anatomy_no_head",
                "This model's answer is not one linear layer of one vector (a distilled model "
                "means two heads), so the head's sum is not shown.",
            ),
        )
