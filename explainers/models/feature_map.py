"""Where a classifier's last feature map is: found by one pass, never from the model's name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

from explainers.models.errors import ModelError
from explainers.models.quantised import unrounded
from explainers.sentence import Sentence

Grid = tuple[int, int]
Layout = Literal["NCHW", "NHWC", "tokens"]

_ATTENTION = {
    *(F.scaled_dot_product_attention, F.multi_head_attention_forward),
    *(F.softmax, torch.softmax, Tensor.softmax),
}


def last_map(features: Tensor) -> Tensor:
    """Hands on what it is given; a capture that watches the pass sees it as the last map."""
    if has_torch_function((features,)):
        answer: Tensor = handle_torch_function(last_map, (features,), features)
        return answer
    return features


@dataclass(frozen=True)
class FeatureMap:
    """What one pass over an input of some size says of a model.

    grid: rows and columns of the last map's cells. prefix: tokens before them. found: whether
    a tensor was seen at which the cells still count towards the answer: the output of
    ``forward_features`` or, where ``norm`` is not None, of the layer norm with that weight.
    even: whether the answer moves alike with every cell, as it does where their mean is read.
    composed: whether ``forward_head(forward_features(x))`` is the model's very answer.
    attends: whether attention (a softmax) was seen at all. width: the numbers of its answer.
    """

    grid: Grid
    prefix: int
    layout: Layout
    found: bool
    norm: Tensor | None
    even: bool
    composed: bool
    attends: bool
    width: int

    def as_tokens(self, tensor: Tensor) -> Tensor:
        """The map as (B, prefix + h·w, width), in reading order."""
        if tensor.dim() != 4 or self.norm is not None:
            return tensor
        if self.layout == "NHWC":
            return tensor.flatten(1, 2)
        return tensor.flatten(2).transpose(1, 2)


class _Pass(TorchFunctionMode):
    """Sees the layer norms of a pass, and whether anything attends."""

    def __init__(self) -> None:
        super().__init__()
        self.norms: list[tuple[Tensor, Tensor]] = []
        self.attends = False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        answer = func(*args, **(kwargs or {}))
        self.attends |= func in _ATTENTION
        if func is F.layer_norm:
            weight = (kwargs or {}).get("weight", args[2] if len(args) > 2 else None)
            if weight is not None and answer.dim() == 3:
                self.norms.append((answer, weight))
        return answer


def find_map(module: Any, size: Grid) -> FeatureMap:
    """Run a timm classifier once forward and once backward on fixed noise of (height, width).

    A module without memory (on torch's meta device) is only asked for its shapes. ModelError
    where it is in training mode or cannot take the size. Rounded weights give no gradient, so
    their twin in floating point is asked.
    """
    if module.training:
        raise ModelError(
            Sentence(
                "model_training",
                "The model is in training mode, where dropout makes every answer another; "
                "call model.eval() first.",
            )
        )
    module = unrounded(module)
    first = next(p for p in module.parameters() if p.is_floating_point())
    drawn = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0))
    try:
        with torch.inference_mode(False), torch.enable_grad(), _Pass() as seen:
            pixels = drawn.to(first.device, first.dtype).requires_grad_()
            features = module.forward_features(pixels)
            answer = module.forward_head(features)
    except NotImplementedError as error:  # a RuntimeError as well, but not about the size
        raise _no_answer(module, error) from error
    except (AssertionError, IndexError, RuntimeError, ValueError) as error:
        raise _no_pass(module, size, error) from error
    width = int(answer.shape[-1])
    places = [(features, None), *reversed(seen.norms)] if seen.norms else [(features, None)]
    if first.is_meta:
        shaped = next(filter(None, (_shape(t, module, size) for t, _ in places)), None)
        grid, prefix, layout = shaped or (_reduced(module, size), 0, "tokens")
        return FeatureMap(grid, prefix, layout, True, None, False, True, seen.attends, width)
    with torch.inference_mode(False), torch.enable_grad():  # rounding may differ without a graph
        composed = isinstance(answer, Tensor) and torch.equal(module(pixels), answer)
        silent = not _gradient(answer, pixels).any()  # a head of zeros says nothing
    for tensor, weight in places:
        shape = _shape(tensor, module, size)
        if shape is None or (not composed if weight is None else not shape[1]):
            continue  # only where a class token is read do the cells stop counting before the end
        grid, prefix, layout = shape
        found = FeatureMap(grid, prefix, layout, True, weight, False, composed, seen.attends, width)
        moves = found.as_tokens(_gradient(answer, tensor))[0, prefix:]  # (h·w, width)
        if silent or moves.any():
            near = 1e-4 * moves.abs().max()
            alike = not silent and not prefix and bool((moves - moves[0]).abs().max() <= near)
            return replace(found, even=alike)
    grid = _reduced(module, size)
    return FeatureMap(grid, 0, "tokens", False, None, False, composed, seen.attends, width)


def grid_at(module: Any, pixels: Tensor) -> Grid:
    """The grid of the last map for pixels (B, 3, h, w) of a size that `find_map` did not see."""
    with _Pass() as seen:
        features = module.forward_features(pixels)
        module.forward_head(features)
    size = int(pixels.shape[2]), int(pixels.shape[3])
    places = [features, *(tensor for tensor, _ in reversed(seen.norms))]
    shaped = next(filter(None, (_shape(tensor, module, size) for tensor in places)), None)
    return shaped[0] if shaped else _reduced(module, size)


def _gradient(answer: Tensor, tensor: Tensor) -> Tensor:
    """How the answer moves with a tensor of its pass; zeros where it does not."""
    if not tensor.requires_grad:
        return torch.zeros_like(tensor)
    # A fixed pattern of signs: no answer cancels another, and nothing is drawn.
    signs = torch.arange(answer.numel(), device=answer.device).remainder(2) * 2 - 1
    total = (answer.flatten() * signs).sum()
    (found,) = torch.autograd.grad(total, tensor, retain_graph=True, allow_unused=True)
    return torch.zeros_like(tensor) if found is None else found


def _shape(tensor: Any, module: Any, size: Grid) -> tuple[Grid, int, Layout] | None:
    """Grid, prefix and layout of a tensor that holds a map of cells, else None."""
    if not isinstance(tensor, Tensor) or tensor.dim() not in (3, 4):
        return None
    if tensor.dim() == 4:
        width = getattr(module, "num_features", None)
        last = getattr(module, "output_fmt", "") == "NHWC" or (
            tensor.shape[3] == width != tensor.shape[1]
        )
        rows, columns = tensor.shape[1:3] if last else tensor.shape[2:4]
        grid = int(rows), int(columns)
        return None if grid == (1, 1) else (grid, 0, "NHWC" if last else "NCHW")
    known = getattr(module, "num_prefix_tokens", None)
    for prefix in (0, 1, 2) if known is None else (known,):
        for grid in _grids(module, size):
            if grid[0] * grid[1] == tensor.shape[1] - prefix:
                return grid, prefix, "tokens"
    return None


def _grids(module: Any, size: Grid) -> Iterator[Grid]:
    """What a model's own statement of its last reduction can mean for an input size."""
    step = reductions(module)[-1]
    whole = [sorted({math.ceil(side / step), side // step}, reverse=True) for side in size]
    yield from itertools.product(*whole)


def _reduced(module: Any, size: Grid) -> Grid:
    return next(_grids(module, size))


def reductions(module: Any) -> list[int]:
    """Input pixels a cell of each stage, as timm's ``feature_info`` says; never empty."""
    info: Any = getattr(module, "feature_info", None)
    info = getattr(info, "info", info)
    found = [int(stage["reduction"]) for stage in info or () if stage.get("reduction")]
    if found:
        return found
    patch = getattr(getattr(module, "patch_embed", None), "patch_size", None)
    patch = patch[0] if isinstance(patch, (tuple, list)) else patch
    if patch:
        return [int(patch)]
    raise ModelError(
        Sentence(
            "no_reduction",
            "{family} does not say how many pixels a cell of its features covers, so it has no "
            "grid to draw maps on.",
            family=type(module).__name__,
        )
    )


def _no_pass(module: nn.Module, size: Grid, error: Exception) -> ModelError:
    return ModelError(
        Sentence(
            "feature_map_size",
            "{family} does not take an input of {height}×{width} pixels ({reason}); give the "
            "size it was built for.",
            family=type(module).__name__,
            height=size[0],
            width=size[1],
            reason=(str(error).split("\n")[0] or type(error).__name__)[:160],
        )
    )


def _no_answer(module: nn.Module, error: Exception) -> ModelError:
    return ModelError(
        Sentence(
            "feature_map_no_answer",
            "{family} has features but gives no answer to explain ({reason}); load a model that "
            "classifies, or that ends in one vector.",
            family=type(module).__name__,
            reason=str(error).rstrip(".")[:160] or type(error).__name__,
        )
    )
