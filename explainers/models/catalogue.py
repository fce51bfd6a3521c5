"""The models that the page's menu and `python -m explainers models` show.

Any other timm name can be typed; these cover the kinds of Vision Transformer there are.
Nothing here imports timm or asks the network, so the list is there at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from explainers.models.hub_cache import WEIGHTS, cached_file
from explainers.sentence import Sentence

State = Literal["embedded", "cached", "download"]
"""In the repository; in the Hub client's cache; to be downloaded first."""

EMBEDDED = "embedded"
PREFERRED = "vit_base_patch16_224.augreg2_in21k_ft_in1k"
"""What the name "auto" stands for where it is in the cache."""


@dataclass(frozen=True)
class Entry:
    """A model of the list: its name for `load_model`, one line on it, its size in megabytes."""

    name: str
    description: Sentence
    megabytes: float

    def state(self, cache_dir: str | Path | None = None) -> State:
        """Where its weights are now; a look at the disk, never at the network."""
        if self.name == EMBEDDED:
            return "embedded"
        here = cached_file(f"timm/{self.name}", WEIGHTS, cache_dir=cache_dir)
        return "cached" if here else "download"


def _entry(name: str, megabytes: float, key: str, description: str) -> Entry:
    return Entry(name, Sentence(f"catalogue_{key}", description), megabytes)


CATALOGUE: tuple[Entry, ...] = (
    _entry(
        EMBEDDED,
        43,
        "embedded",
        "Small, 14-pixel patches, trained on Tiny-ImageNet; comes with ViTScope, for research use.",
    ),
    _entry(
        PREFERRED,
        346,
        "base",
        "The usual ViT-B/16, trained on ImageNet-21k, then on the 1,000 classes of ImageNet.",
    ),
    _entry(
        "vit_tiny_patch16_224.augreg_in21k_ft_in1k",
        23,
        "tiny",
        "The smallest usual ViT: 3 heads, the quickest download.",
    ),
    _entry(
        "vit_small_patch16_224.augreg_in21k_ft_in1k",
        88,
        "small",
        "6 heads in 12 blocks: a good trade between size and accuracy.",
    ),
    _entry(
        "vit_large_patch16_224.augreg_in21k_ft_in1k",
        1217,
        "large",
        "24 blocks of 16 heads: the deepest of this list, and slow without a GPU.",
    ),
    _entry(
        "vit_base_patch32_224.augreg_in21k_ft_in1k",
        353,
        "patch32",
        "32-pixel patches: a coarse 7×7 grid, four times fewer tokens.",
    ),
    _entry(
        "vit_base_patch16_384.augreg_in21k_ft_in1k",
        347,
        "size384",
        "384-pixel photos: a finer 24×24 grid.",
    ),
    _entry(
        "deit_small_patch16_224.fb_in1k",
        88,
        "deit",
        "DeiT-S, trained on ImageNet-1k alone with strong augmentation.",
    ),
    _entry(
        "deit_tiny_distilled_patch16_224.fb_in1k",
        24,
        "distilled",
        "DeiT-Ti with a distillation token: two tokens decide together.",
    ),
    _entry(
        "vit_small_patch14_reg4_dinov2.lvd142m",
        88,
        "dinov2_registers",
        "DINOv2-S with 4 register tokens, self-supervised, without a class head; 37×37 grid.",
    ),
    _entry(
        "vit_small_patch16_224.dino",
        87,
        "dino",
        "DINO-S, self-supervised, without a class head; known for heads that outline objects.",
    ),
    _entry(
        "vit_medium_patch16_gap_256.sw_in12k_ft_in1k",
        155,
        "average",
        "No class token: the mean of all patches decides.",
    ),
    _entry(
        "vit_base_patch16_224.mae",
        343,
        "mae",
        "Trained to fill in hidden patches (MAE); without a class head.",
    ),
)
