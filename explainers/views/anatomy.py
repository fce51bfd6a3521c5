"""A photo's way through a model, step by step, with every tensor on the way by its name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from explainers.attention_call import AttentionCall, exact
from explainers.capture import Capture, stored_as
from explainers.models.adapters import NAMES
from explainers.models.errors import ModelError
from explainers.registry import YES, Support
from explainers.sentence import Sentence
from explainers.trace import Trace
from explainers.views.lens import Lens, lens, patch_answers
from explainers.views.passing import Passing, learned_prefix
from explainers.windowed_call import WindowedCall


@dataclass(frozen=True, eq=False)
class BlockTensors:
    """One block opened up, for one photo. q, k, v: (H, N, D) each; all else (N, width), but
    ``hidden`` (N, MLP width), before the activation. projected: the attention's output layer on
    the merged heads; what the block adds is that, or that times LayerScale. Those that the
    model's design hides are None."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    input: Tensor | None = None
    norm1: Tensor | None = None
    heads: Tensor | None = None
    projected: Tensor | None = None
    middle: Tensor | None = None
    norm2: Tensor | None = None
    hidden: Tensor | None = None
    output: Tensor | None = None


class Anatomy:
    """All tensors of one photo's pass, from pixels to logits, and why some cannot be shown.

    Every tensor has a key (see ``tensor``). Blocks are read one at a time: the last one asked
    for is kept.
    """

    def __init__(self, trace: Trace) -> None:
        if len(trace) != 1:
            raise ValueError(f"this trace holds {len(trace)} photos; choose one: trace[i]")
        self.trace = trace
        self._open: tuple[int, BlockTensors] | None = None
        self._lock = RLock()

    # -- from pixels to tokens --------------------------------------------------------------

    @property
    def pixels(self) -> Tensor:
        """The model's input (3, h, w)."""
        return self.trace.pixels[0]

    @cached_property
    def patches(self) -> Tensor:
        """Each patch flattened: (patches, P²·3), row by row, pixel by pixel, colours together."""
        (rows, columns), (ph, pw) = self.trace.grid, self.trace.model.adapter.patch
        cut = self.pixels[:, : rows * ph, : columns * pw].unflatten(1, (rows, ph))
        cut = cut.unflatten(3, (columns, pw))  # (3, h, P, w, P)
        return cut.permute(1, 3, 2, 4, 0).reshape(rows * columns, -1)

    @cached_property
    def filters(self) -> Tensor:
        """The patch projection's weights (width, P²·3), in the order of ``patches``."""
        filters = self.trace.model.adapter.patch_filters()  # (width, 3, P, P)
        return filters.permute(0, 2, 3, 1).flatten(1)

    @property
    def embedding(self) -> Tensor:
        """The patches projected: (patches, width)."""
        return self._demand(self._passing.embedding, self.projection_support)

    @property
    def filter_bias(self) -> Tensor:
        """What the projection adds to W·patch: (width,); zero where it has no bias."""
        return self.embedding[0] - self.filters @ self.patches[0]

    @cached_property
    def repainted(self) -> Tensor:
        """Each patch put together again from the filters: (patches, P²·3).

        The weighted sum of filters whose projection is the same (the smallest one, by least
        squares): what of the pixels the projection has kept.
        """
        rest = (self.embedding - self.filter_bias).double()
        return (rest @ torch.linalg.pinv(self.filters.double()).T).to(self.patches.dtype)

    @cached_property
    def prefix_tokens(self) -> Tensor | None:
        """CLS, DIST, registers as learned (prefix, width); None where they are not named."""
        if not self.trace.prefix:
            return self.embedding[:0]
        return learned_prefix(self.trace.model.module, self.trace.prefix)

    @property
    def prefixed(self) -> Tensor:
        """Prefix tokens, then the projected patches: (N, width)."""
        prefix = self._demand(self.prefix_tokens, self.prefix_support)
        return torch.cat([prefix.to(self.embedding), self.embedding])

    @property
    def positioned(self) -> Tensor:
        """The same with positions added, before any norm: (N, width)."""
        if self._passing.before_norm is not None:
            return self._passing.before_norm
        return self.trace.features("input", 0)

    @property
    def positions(self) -> Tensor:
        """What is added to each token for its place: (N, width)."""
        return self.positioned - self.prefixed

    @property
    def has_positions(self) -> bool:
        """Whether anything is added; else places enter inside attention, or not at all."""
        return bool(self.positions.abs().max() > 1e-5 * self.positioned.abs().max())

    @property
    def pre_norm(self) -> bool:
        """Whether a LayerNorm reads the tokens before the first block does."""
        return self._passing.before_norm is not None

    # -- one block ----------------------------------------------------------------------------

    def block(self, block: int) -> BlockTensors:
        """The tensors of a block. ModelError where the model's attention is not read."""
        with self._lock:
            if self._open is None or self._open[0] != block:
                self._open = block, self._opened(block)
            return self._open[1]

    def scores(self, block: int, head: int, token: int) -> Tensor:
        """q·kᵀ/√D of one token with all others, with the model's bias if it has one: (N,)."""
        call = self._call(block)
        q, k = exact(call.q[0, head, token]) * call.scale, exact(call.k[0, head])
        scores = k @ q
        bias = self.attention_bias(block, head, token)
        return scores if bias is None else scores + bias

    def attention_bias(self, block: int, head: int, token: int) -> Tensor | None:
        """What is added to a token's scores (N,), e.g. by relative positions; None without."""
        mask = self._call(block).mask
        if mask is None or mask.dtype == torch.bool:
            return None
        size = (1, self.trace.heads, self.trace.tokens, self.trace.tokens)
        return mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape)).expand(size)[
            0, head, token
        ]

    # -- the end --------------------------------------------------------------------------------

    @cached_property
    def lens(self) -> Lens:
        """What each block would answer, and how like its deciding vector is to the last."""
        return lens(self.trace)

    def patch_answers(self, block: int) -> Tensor:
        """What each patch alone would answer after a block: (patches, classes)."""
        return patch_answers(self.trace, block)

    @property
    def pooled(self) -> Tensor:
        """The vector that the head's last layer reads: (width,)."""
        return self._demand(self._passing.pooled, self.head_support)

    @property
    def head_weight(self) -> Tensor:
        """The head's last layer: (classes, width)."""
        return self._demand(self._passing.weight, self.head_support)

    @property
    def head_bias(self) -> Tensor:
        """Its bias (classes,), zero where it has none."""
        bias = self._passing.bias
        return self.head_weight.new_zeros(len(self.head_weight)) if bias is None else bias

    # -- by key -----------------------------------------------------------------------------------

    def tensor(self, key: str) -> Tensor:
        """The tensor of a key: ``pixels``, ``patches``, ``embedding``, ``prefixed``,
        ``positions``, ``positioned``, ``pooled``, ``logits``, or NAME.BLOCK with a field of
        `BlockTensors`, ``scores`` or ``attention`` (both (H, N, N)), e.g. ``norm1.3``."""
        name, _, number = key.partition(".")
        if name == "logits":
            if self.trace.logits is None:
                raise ModelError(self.support("logits").reason)
            return self.trace.logits[0]
        if not number:
            found: Tensor = getattr(self, name)
            return found
        block = int(number)
        if name == "attention":
            return self.trace.attention(block)
        if name == "scores":
            heads, tokens = range(self.trace.heads), range(self.trace.tokens)
            rows = [torch.stack([self.scores(block, h, t) for t in tokens]) for h in heads]
            return torch.stack(rows)
        tensor: Tensor | None = getattr(self.block(block), name)
        if tensor is None:
            raise ModelError(self._features.reason)
        return tensor

    def row(self, key: str, *index: int) -> Tensor:
        """``tensor(key)[index]``, e.g. head and token, without making the rest of it."""
        name, _, number = key.partition(".")
        if len(index) == 2 and name == "scores":
            return self.scores(int(number), *index)
        if len(index) == 2 and name == "attention":
            return self.trace.attention(int(number), index[0], [index[1]])[0]
        return self.tensor(key)[index]

    def support(self, step: str) -> Support:
        """Whether a step of `STEPS` can be shown for this model; falsy with the reason."""
        features = self._features
        if step == "projection":
            return self.projection_support
        if step in ("prefix", "positions"):
            return self.prefix_support
        if step in ("scores", "softmax", "values"):
            return self._attention
        if step in ("norm", "merge", "mlp"):
            return features if self._attention else self._attention
        if step == "blocks":
            return features
        if step == "head":
            return self.head_support
        if step == "logits" and self.trace.logits is None:
            return Support(
                False,
                Sentence(
                    "anatomy_no_logits",
                    "This model has no classification head: its answer is the vector of the last "
                    "step, so there are no logits.",
                ),
            )
        return YES

    @property
    def projection_support(self) -> Support:
        """Whether the patches' projection is a plain linear one that was seen."""
        support = self.trace.model.adapter.filters_support()
        if not support:
            return support
        seen = self._passing.embedding
        if seen is not None and len(seen) == len(self.patches):
            return YES
        return Support(
            False,
            Sentence(
                "anatomy_no_projection",
                "The patch projection of this model was not seen at work (its weights are "
                "resized first, or the photo is padded), so its numbers are not shown.",
            ),
        )

    @property
    def prefix_support(self) -> Support:
        """Whether the tokens before the patches are known as they are before positions."""
        if not self.projection_support:
            return self.projection_support
        if not self._features:
            return self._features
        if self.prefix_tokens is not None:
            return YES
        return Support(
            False,
            Sentence(
                "anatomy_no_prefix",
                "This model does not name its {count} prefix tokens, so they cannot be shown "
                "apart from their positions.",
                count=self.trace.prefix,
            ),
        )

    @property
    def head_support(self) -> Support:
        """Whether the answer is one linear layer of one vector."""
        if not self.trace.model.classes:
            return self.support("logits")
        if self._passing.pooled is not None:
            return YES
        return Support(
            False,
            Sentence(
                "anatomy_no_head",
                "This model's answer is not one linear layer of one vector (a distilled model "
                "means two heads), so the head's sum is not shown.",
            ),
        )

    # -- reading --------------------------------------------------------------------------------

    @cached_property
    def _features(self) -> Support:
        adapter = self.trace.model.adapter
        chain = adapter.chain_support()
        return adapter.features_support() if chain else chain

    @cached_property
    def _attention(self) -> Support:
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
    def _passing(self) -> Passing:
        passing = Passing(self.trace.model.adapter)
        self._run(passing)
        return passing

    def _call(self, block: int) -> AttentionCall:
        if not self._attention:
            raise ModelError(self._attention.reason)
        call: AttentionCall = self.trace.calls[block]
        return call

    @torch.no_grad()
    def _opened(self, block: int) -> BlockTensors:
        trace, call = self.trace, self._call(block)
        attention = BlockTensors(
            exact(call.q[0]), exact(call.k[0]), trace.values(block), call.scale
        )
        if not self._features:
            return attention
        passing = Passing(trace.model.adapter, block)
        capture = Capture(trace.model.adapter, keep={*NAMES})
        with capture:
            self._run(passing)
        kept = {}
        for name in NAMES:
            found = capture.tensors.get(stored_as(name, block, trace.depth))
            if found is not None:  # one photo, whichever side the batch stands on
                kept[name] = found.reshape(-1, found.shape[-1])
        parts, heads = trace.model.adapter.blocks[block], kept.get("heads")
        projection: Any = parts.projection
        fits = heads is not None and heads.shape[-1] == projection.weight.shape[-1]
        return BlockTensors(
            attention.q,
            attention.k,
            attention.v,
            attention.scale,
            **kept,
            projected=projection(heads) if fits else None,
            hidden=passing.hidden,
        )

    def _run(self, passing: Passing) -> None:
        with torch.inference_mode(False), torch.no_grad():
            with passing:
                answer = self.trace.model.logits(self.trace.pixels)
            passing.finish(answer)

    def _demand(self, tensor: Tensor | None, support: Support) -> Tensor:
        if tensor is None or not support:
            raise ModelError(support.reason)
        return tensor
