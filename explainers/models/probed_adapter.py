"""A Vision Transformer of someone's own making: what it does, learned from one pass over noise.

Nothing is asked of its names. The pass shows which calls are attention, which layer reads the
heads, which norm reads the stream, and, by one gradient, which tokens feed the answer.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from explainers.models.adapters import Adapter, BlockParts, Pooling, no_graph
from explainers.models.encoder_adapter import patch_convolution, position_table, stored_size
from explainers.models.errors import ModelError
from explainers.models.noise_pass import noise_pass
from explainers.models.probe import Layer, Probe
from explainers.models.quantised import unrounded
from explainers.registry import YES, Support
from explainers.sentence import Sentence

_PREFIXES = (1, 0, 2, 5, 3, 4, 6, 8, 9)
"""Counts of prefix tokens, commonest first: the patches are what is left of all tokens."""


class ProbedAdapter(Adapter):
    """Reads an own module by what its forward pass does; `wrap_model` comes to it last."""

    def __init__(self, module: nn.Module, size: tuple[int, int] | None) -> None:
        self._module = module
        self.family = type(module).__name__
        self._stored_size = stored_size(module) or size
        self.input_size = size or self._stored_size
        if self.input_size is None:
            raise ModelError(
                Sentence(
                    "encoder_size",
                    "{family} does not say how large its input is; give size=(height, width).",
                    family=self.family,
                )
            )
        twin = unrounded(module)
        probe = Probe()
        answer = noise_pass(twin, self.input_size, probe)
        layers = probe.layers
        self._graph = answer.requires_grad  # not where its forward pass leaves gradients out
        self.classes = answer.shape[-1]
        self.attends = bool(layers)
        self._convolution = patch_convolution(module)
        self._alike = bool(layers) and len({(x.heads, x.tokens) for x in layers}) == 1
        self.blocks = self._parts(layers, twin) if self._alike else ()
        self.heads = layers[0].heads if layers else 1
        self._lay_out(layers[0].tokens if self._alike else None)
        self.pooling, self.pooling_name = self._pooling(layers, answer)

    def _parts(self, layers: list[Layer], twin: nn.Module) -> tuple[BlockParts, ...]:
        """The module's parts of the names of those of its twin, which the pass was of."""
        own = dict(self._module.named_modules())
        owners = {
            id(parameter): own[name]
            for name, part in twin.named_modules()
            for parameter in part.parameters(recurse=False)
        }
        return tuple(_parts(layer, owners) for layer in layers)

    def _lay_out(self, tokens: int | None) -> None:
        """Patch size and prefix, from the patch convolution, or from the count of tokens."""
        height, width = self.input_size or (0, 0)
        own = getattr(self._module, "patch_size", None)
        if self._convolution is not None:
            sides: Any = self._convolution.kernel_size
        elif isinstance(own, (int, tuple, list)):
            sides = (own, own) if isinstance(own, int) else own
        else:
            kernel = _program_kernel(self._module, (height, width))
            sides = kernel or _square_patch(height, width, tokens)
        self.patch = int(sides[0]), int(sides[1])
        rows, columns = self.grid((height, width))
        self.prefix = 0 if tokens is None else tokens - rows * columns
        if self.prefix < 0:
            self._alike, self.blocks, self.prefix = False, (), 0
        self.prefix_names = tuple(
            "CLS" if i == 0 else f"prefix {i + 1}" for i in range(self.prefix)
        )

    def _pooling(self, layers: list[Layer], answer: Tensor) -> tuple[Pooling, str]:
        """Which tokens feed the answer: those whose last attention output moves it."""
        if not self._alike or not self._graph:
            return "other", "its own design"
        # A fixed pattern of signs: no number of the answer cancels another.
        signs = torch.arange(answer.numel(), device=answer.device).remainder(2) * 2 - 1
        last = cast(Tensor, layers[-1].output)
        (gradient,) = torch.autograd.grad((answer.flatten() * signs).sum(), [last])
        feeds = (gradient.reshape(-1, gradient.shape[-1]).abs().amax(1) > 0).tolist()
        before, patches = feeds[: self.prefix], feeds[self.prefix :]
        if self.prefix and feeds[0] and not any(feeds[1:]):
            return "token", "token"
        if all(patches) and not any(before):
            return "avg", "avg"
        return ("all", "avg") if all(feeds) else ("other", f"{sum(feeds)} of {len(feeds)} tokens")

    def gradients_support(self) -> Support:
        return YES if self._graph else no_graph(self.family)

    def attention_support(self) -> Support:
        if self._alike:
            return YES
        return Support(
            False,
            Sentence(
                "probed_attention",
                "In one pass of {family} no attention of the same tokens from block to block was "
                "seen (it is compiled to a program, or of another design), so its rows cannot be "
                "shown; gradients and perturbations are.",
                family=self.family,
            ),
        )

    @property
    def depth(self) -> int:
        return max(1, len(self.blocks))

    @property
    def calls(self) -> int:
        return len(self.blocks)

    def features_support(self) -> Support:
        ends = [block.norm2 is not None for block in self.blocks]
        if ends and all(ends):
            return super().features_support()
        return Support(
            False,
            Sentence(
                "probed_features",
                "In {family} the residual stream could not be followed from block to block by "
                "the norms that read it, so its features are not read.",
                family=self.family,
            ),
        )

    def _filters(self) -> Tensor | None:
        return None if self._convolution is None else self._convolution.weight.detach()

    def _positions(self) -> Tensor | None:
        if self._stored_size is None or not self._alike:
            return None
        return position_table(self._module, self.grid(self._stored_size), self.prefix)

    def _positions_grid(self) -> tuple[int, int]:
        return self.grid(self._stored_size or (0, 0))


def _parts(layer: Layer, owners: dict[int, nn.Module]) -> BlockParts:
    norm1, norm2, projection = (
        None if weight is None else owners.get(id(weight))
        for weight in (layer.norm1, layer.norm2, layer.projection)
    )
    return BlockParts(norm1, norm2, projection or nn.Identity())


def is_program(module: nn.Module) -> bool:
    """Whether a module was made into a program, whose inner calls may not be seen."""
    return isinstance(module, (torch.jit.ScriptModule, torch.fx.GraphModule))


def _program_kernel(module: nn.Module, size: tuple[int, int]) -> tuple[int, int] | None:
    """In a program, the first kernel that reads RGB and divides the input into whole cells."""
    for parameter in module.parameters() if is_program(module) else ():
        if parameter.dim() == 4 and parameter.shape[1] == 3:
            height, width = int(parameter.shape[2]), int(parameter.shape[3])
            whole = size[0] % height == 0 and size[1] % width == 0
            return (height, width) if whole and height > 1 else None
    return None


def _square_patch(height: int, width: int, tokens: int | None) -> tuple[int, int]:
    """The side of square patches that make all tokens but some prefix ones; else a 14th."""
    for prefix in _PREFIXES if tokens is not None else ():
        for side in range(min(height, width), 1, -1):
            whole = height % side == 0 and width % side == 0
            if whole and (height // side) * (width // side) + prefix == tokens:
                return side, side
    return max(1, height // 14), max(1, width // 14)
