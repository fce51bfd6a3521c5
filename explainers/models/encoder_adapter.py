"""Models built on `nn.TransformerEncoder`: their tokens and decision found by one probe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from explainers.models.adapters import Adapter, BlockParts, Pooling, no_graph
from explainers.models.errors import ModelError
from explainers.models.noise_pass import noise_pass
from explainers.models.quantised import unrounded
from explainers.sentence import Sentence

_POSITION_NAMES = ("pos_embed", "pos_embedding", "position_embedding", "position_embeddings")


def find_encoder(module: nn.Module) -> nn.TransformerEncoder | None:
    """The module's only `nn.TransformerEncoder`, or None."""
    found = [m for m in module.modules() if isinstance(m, nn.TransformerEncoder)]
    return found[0] if len(found) == 1 else None


class _Outputs(TorchFunctionMode):
    """Sees what each attention layer hands on: (N, B, width), attached to the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func is F.multi_head_attention_forward:
            self.outputs.append(answer[0])
        return answer


class EncoderAdapter(Adapter):
    """Reads an encoder's layers; the patch size from its convolution (or `patch_size`).

    Nothing in such a module says which tokens feed the head, so one forward and backward
    pass on a noise image asks the gradient: a token whose last attention output moves the
    answer feeds it, the others do not.
    """

    family = "nn.TransformerEncoder"

    def __init__(
        self, module: nn.Module, encoder: nn.TransformerEncoder, size: tuple[int, int] | None
    ) -> None:
        self._module = module
        self.blocks = tuple(
            BlockParts(
                layer.norm1 if layer.norm_first else None,
                layer.norm2 if layer.norm_first else None,
                layer.self_attn.out_proj,
            )
            for layer in encoder.layers
        )
        self.heads = encoder.layers[0].self_attn.num_heads
        self.batch_first = encoder.layers[0].self_attn.batch_first
        self._convolution = patch_convolution(module)
        self.patch = self._patch_size()
        self._stored_size = stored_size(module) or size
        self.input_size = size or self._stored_size
        if self.input_size is None:
            raise ModelError(
                Sentence(
                    "encoder_size",
                    "{family} does not say how large its input is; give size=(height, width).",
                    family=type(module).__name__,
                )
            )
        self._probe(self.input_size)

    def _probe(self, size: tuple[int, int]) -> None:
        """Learn prefix, classes and pooling from one pass over (height, width) pixels."""
        with torch.inference_mode(False), torch.enable_grad():
            seen = _Outputs()
            answer = noise_pass(unrounded(self._module), size, seen)
            last = seen.outputs[-1]  # (N, 1, width)
            if not (answer.requires_grad and last.requires_grad):
                raise ModelError(no_graph(type(self._module).__name__).reason)
            # A fixed pattern of signs: no answer cancels another, and nothing is drawn.
            signs = torch.arange(answer.numel(), device=answer.device).remainder(2) * 2 - 1
            (gradient,) = torch.autograd.grad((answer.flatten() * signs).sum(), last)
        self.classes = answer.shape[-1]
        tokens = last.shape[0]
        rows, columns = self.grid(size)
        self.prefix = tokens - rows * columns
        if self.prefix < 0:
            raise ModelError(
                Sentence(
                    "encoder_grid",
                    "The model turns {height}×{width} pixels into {tokens} tokens, fewer than "
                    "the {patches} patches of its {patch} px grid; give its true size.",
                    height=size[0],
                    width=size[1],
                    tokens=tokens,
                    patches=rows * columns,
                    patch=self.patch[0],
                )
            )
        self.prefix_names = tuple(
            "CLS" if i == 0 else f"prefix {i + 1}" for i in range(self.prefix)
        )
        feeds = gradient.abs().amax((1, 2)) > 0  # (N,)
        self.pooling, self.pooling_name = self._pooling(feeds.tolist())

    def _pooling(self, feeds: list[bool]) -> tuple[Pooling, str]:
        before, patches = feeds[: self.prefix], feeds[self.prefix :]
        if self.prefix and feeds[0] and not any(feeds[1:]):
            return "token", "token"
        if all(patches) and not any(before):
            return "avg", "avg"
        if all(feeds):
            return "all", "avg"
        return "other", f"{sum(feeds)} of {len(feeds)} tokens"

    def _patch_size(self) -> tuple[int, int]:
        if self._convolution is not None:
            height, width = self._convolution.kernel_size
            return int(height), int(width)
        size = getattr(self._module, "patch_size", None)
        if isinstance(size, int):
            return size, size
        if isinstance(size, (tuple, list)) and len(size) == 2:
            return int(size[0]), int(size[1])
        raise ModelError(
            Sentence(
                "encoder_patch",
                "No patch embedding was found in {family}: expected a convolution whose stride "
                "is its kernel size, or an attribute patch_size.",
                family=type(self._module).__name__,
            )
        )

    def _filters(self) -> Tensor | None:
        return None if self._convolution is None else self._convolution.weight.detach()

    def _positions(self) -> Tensor | None:
        if self._stored_size is None:
            return None
        return position_table(self._module, self.grid(self._stored_size), self.prefix)

    def _positions_grid(self) -> tuple[int, int]:
        return self.grid(self._stored_size or (0, 0))


def patch_convolution(module: nn.Module) -> nn.Conv2d | None:
    """The first convolution that cuts RGB photos into patches: its stride is its kernel's size."""

    def candidates() -> Iterator[nn.Conv2d]:
        for m in module.modules():
            if isinstance(m, nn.Conv2d) and m.in_channels == 3 and m.stride == m.kernel_size:
                yield m

    return next(candidates(), None)


def position_table(module: nn.Module, grid: tuple[int, int], prefix: int) -> Tensor | None:
    """A parameter named as positions are, one a patch of the grid (and one a prefix token)."""
    rows, columns = grid
    for name, parameter in module.named_parameters():
        if name.rsplit(".", 1)[-1] in _POSITION_NAMES and parameter.dim() in (2, 3):
            table = parameter.reshape(-1, parameter.shape[-1])
            if table.shape[0] - rows * columns in (0, prefix):
                return table
    return None


def stored_size(module: nn.Module) -> tuple[int, int] | None:
    """(height, width) of the input in an attribute image_size or img_size, where there is one."""
    size = getattr(module, "image_size", getattr(module, "img_size", None))
    if isinstance(size, int):
        return size, size
    return tuple(size) if isinstance(size, (tuple, list)) and len(size) == 2 else None
