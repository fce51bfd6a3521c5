"""What is trained: a new reference ViT, or a finished model with a new head."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from explainers.models.preprocessing import Preprocessing
from explainers.models.reference_file import REFERENCES, new_reference
from explainers.models.vision_model import VisionModel
from training.batches import drawn_from
from training.depths import depth_of, from_head
from training.errors import TrainingError

GREY = (0.5, 0.5, 0.5)  # mean and std that bring 0..1 to −1..1, as the paper's own code does


@dataclass(eq=False)
class Learner:
    """A module in training, with what a checkpoint says about it.

    frozen: only the head learns; the backbone also stays in evaluation mode. frozen_blocks: so
    many first blocks, and what comes before them, stay as they are.
    """

    module: Any
    preprocessing: Preprocessing
    classes: tuple[str, ...]
    frozen: bool = False
    frozen_blocks: int = 0

    def train_mode(self) -> None:
        self.module.train(not self.frozen)
        for block in blocks(self.module)[: self.frozen_blocks]:
            block.eval()
        for head in heads(self.module):
            head.train()

    def trained_parameters(self) -> int:
        return sum(p.numel() for p in self.module.parameters() if p.requires_grad)


def new_learner(
    architecture: str, arguments: Mapping[str, Any], classes: tuple[str, ...], seed: int
) -> Learner:
    """A reference ViT or its twin with weights drawn from the seed, everything trained.

    Raises ModelError for arguments that do not go together.
    """
    given = {**arguments, "classes": len(classes)}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(drawn_from(seed))
        module = new_reference(architecture, given)
    module.model_args = given
    size = module.image_size
    module.pretrained_cfg = {"architecture": architecture}
    return Learner(module, Preprocessing(size, GREY, GREY, crop_pct=1.0), classes)


def fine_tuned(
    vit: VisionModel, classes: tuple[str, ...], frozen: bool, frozen_blocks: int = 0
) -> Learner:
    """The model with its head dropped and a D×K head of zeros in its place (section 3.2).

    frozen_blocks: where not all of the backbone is frozen, its patch embedding, prefix tokens,
    positions and so many first blocks. The whole photo is given to it: what was cut away at its
    borders is not for small images. Raises TrainingError for more blocks than there are.
    """
    module: Any = vit.module
    depth = depth_of(module)
    if frozen_blocks and (frozen or not 0 < frozen_blocks <= depth):
        raise TrainingError(
            f"--freeze-blocks goes with --backbone all and takes 0 to {depth} blocks of "
            f"{vit.name}; got {frozen_blocks} with --backbone {'frozen' if frozen else 'all'}."
        )
    replace_head(module, len(classes))
    module.requires_grad_(not frozen)
    if frozen_blocks:
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(from_head(name, depth) <= depth - frozen_blocks)
    for head in heads(module):
        head.requires_grad_(True)
    prepare = replace(vit.preprocessing, crop_pct=1.0)
    return Learner(module, prepare, classes, frozen, frozen_blocks)


def replace_head(module: Any, classes: int) -> None:
    """Put a linear head of zeros, weights and biases, on a timm model or a reference ViT."""
    if is_reference(module):
        width = module.norm.normalized_shape[0]
        weight = module.cls_token
        module.head = nn.Linear(width, classes, device=weight.device, dtype=weight.dtype)
        module.num_classes = classes
        arguments = {k: v for k, v in module.model_args.items() if k != "head"}
        module.model_args = {**arguments, "classes": classes}
    else:
        module.reset_classifier(classes)
    for head in heads(module):
        for parameter in head.parameters():
            nn.init.zeros_(parameter)


def heads(module: Any) -> list[nn.Module]:
    """The head; of a distilled model both, whose answers are averaged."""
    return [getattr(module, name) for name in ("head", "head_dist") if hasattr(module, name)]


def blocks(module: Any) -> Any:
    """The blocks in order, of a timm model, a reference ViT or its twin."""
    return module.encoder.layers if hasattr(module, "encoder") else module.blocks


def check_later_size(module: Any, size: int) -> None:
    """TrainingError where the model does not take images of ``size`` besides its own."""
    if not getattr(module, "dynamic_img_size", False):
        raise TrainingError(
            "--later-size needs a model that takes images of several sizes (built with "
            "dynamic_img_size, as embedded is); this one does not."
        )
    height, width = module.patch_embed.patch_size
    if size % height or size % width:
        raise TrainingError(
            f"--later-size must be whole patches of {height}×{width} pixels; got {size}."
        )


def is_reference(module: Any) -> bool:
    """Whether a module is of this project, and not of timm."""
    return isinstance(module, tuple(REFERENCES.values()))


def set_dropout(module: nn.Module, rate: float) -> None:
    """The same dropout in every place the model has for it."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = rate
        elif isinstance(getattr(part, "dropout", None), float):
            part.dropout = rate  # type: ignore[assignment]


def checkpoint_blocks(module: Any) -> None:
    """Keep only what enters each block; compute its inside again in the backward pass.

    Memory falls from all tensors of all blocks to one a block, for a third more work.
    """
    for block in blocks(module):
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
