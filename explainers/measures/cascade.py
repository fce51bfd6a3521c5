"""A private copy of a model whose blocks forget what they learned, the top one first."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from explainers.measures.orders import SEED, WEIGHTS
from explainers.models.families import adapt
from explainers.models.vision_model import VisionModel

_KEPT = {"stem", "patch_embed", "head"}


def cascade(model: VisionModel, stages: int) -> Iterator[tuple[int, VisionModel]]:
    """(blocks randomised so far, the copy) for about ``stages`` stages, the last with all blocks.

    A block's weights are redrawn with the mean and the standard deviation they had, tensor by
    tensor, so that activations keep their size. Patch embedding, positions, the last norm and
    the head stay. The model itself is only read.
    """
    module = copy.deepcopy(model.module)
    private = replace(
        model,
        module=module,
        adapter=adapt(module, model.preprocessing.size),
        lock=threading.Lock(),
    )
    blocks = _blocks(private)
    wanted = np.unique(np.rint(np.linspace(0, len(blocks), stages + 1)).astype(int))[1:]
    done = 0
    for count in wanted.tolist():
        for number in range(done, count):
            _redraw(blocks[-1 - number], number)
        done = count
        yield count, private


def _blocks(model: VisionModel) -> list[nn.Module]:
    """The module of each block: the largest part with its output projection and no other's.

    Where the adapter reads no blocks: the members of the model's own lists of layers.
    """
    ends = [parts.projection for parts in model.adapter.blocks]
    if not ends:
        lists = [
            held
            for name, held in model.module.named_children()
            if isinstance(held, (nn.ModuleList, nn.Sequential)) and name not in _KEPT
        ]
        return [part for held in lists for part in held if any(True for _ in part.parameters())]
    found: list[nn.Module] = ends.copy()
    for part in model.module.children():
        for module in part.modules():
            held = {id(inner) for inner in module.modules()}
            mine = [number for number, end in enumerate(ends) if id(end) in held]
            # modules() names the outer before the inner: only the first is taken.
            if len(mine) == 1 and found[mine[0]] is ends[mine[0]]:
                found[mine[0]] = module
    return found


def _redraw(block: nn.Module, number: int) -> None:
    generator = torch.Generator().manual_seed(SEED + 1000 * WEIGHTS + number)
    with torch.inference_mode(False), torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(_alike(parameter, generator))


def _alike(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Normal numbers of the tensor's own mean and standard deviation."""
    values = tensor.detach().float()
    deviation = values.std(correction=0).cpu()
    return values.mean().cpu() + deviation * torch.randn(values.shape, generator=generator)
