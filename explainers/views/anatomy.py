"""A photo's way through a model, step by step, with every tensor on the way by its name."""

from __future__ import annotations

from functools import cache, cached_property, partial
from threading import RLock

import torch
from torch import Tensor

from explainers.attention_call import AttentionCall, exact
from explainers.models.errors import ModelError
from explainers.registry import Support
from explainers.trace import Trace
from explainers.views.anatomy_support import AnatomySupport
from explainers.views.block_tensors import BlockTensors, opened
from explainers.views.lens import Lens, lens, patch_answers
from explainers.views.passing import Passing, learned_prefix, watched


class Anatomy:
    """All tensors of one photo's pass, from pixels to logits, and why some cannot be shown.

    Every tensor has a key (see ``tensor``). Blocks are read one at a time: the last one asked
    for is kept.
    """

    def __init__(self, trace: Trace) -> None:
        if len(trace) != 1:
            raise ValueError(f"this trace holds {len(trace)} photos; choose one: trace[i]")
        self.trace = trace
        self._passing_once = cache(partial(watched, trace))  # without a circle back to this
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
        return self._demand(self._passing.embedding, self._supports.projection)

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
        # on the CPU, as there is no float64 on some accelerators
        rest = (self.embedding - self.filter_bias).cpu().double()
        back = torch.linalg.pinv(self.filters.cpu().double()).T
        return (rest @ back).to(self.patches.dtype).to(self.patches.device)

    @cached_property
    def prefix_tokens(self) -> Tensor | None:
        """CLS, DIST, registers as learned (prefix, width); None where they are not named."""
        if not self.trace.prefix:
            return self.embedding[:0]
        return learned_prefix(self.trace.model.module, self.trace.prefix)

    @property
    def prefixed(self) -> Tensor:
        """Prefix tokens, then the projected patches: (N, width)."""
        prefix = self._demand(self.prefix_tokens, self._supports.prefix)
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
                call = self._call(block)
                features = bool(self._supports.features)
                self._open = block, opened(self.trace, call, block, features)
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
        return self._demand(self._passing.pooled, self._supports.head)

    @property
    def head_weight(self) -> Tensor:
        """The head's last layer: (classes, width)."""
        return self._demand(self._passing.weight, self._supports.head)

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
            raise ModelError(self._supports.features.reason)
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
        return self._supports.of(step)

    # -- reading --------------------------------------------------------------------------------

    @property
    def _passing(self) -> Passing:
        return self._passing_once()

    @cached_property
    def _supports(self) -> AnatomySupport:
        return AnatomySupport(self.trace, self._passing_once)

    def _call(self, block: int) -> AttentionCall:
        if not self._supports.attention:
            raise ModelError(self._supports.attention.reason)
        call: AttentionCall = self.trace.calls[block]
        return call

    def _demand(self, tensor: Tensor | None, support: Support) -> Tensor:
        if tensor is None or not support:
            raise ModelError(support.reason)
        return tensor
