"""A stranger's model: a small ViT fine-tuned to tell five colours, with a head of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from tests.tiny import seeded

ARCH = "test_vit"  # timm's own: 160 pixels in 16-pixel patches, width 64, 6 blocks
COLOURS = {
    "rust": (183, 65, 14),
    "moss": (86, 130, 3),
    "navy": (0, 0, 128),
    "sand": (194, 178, 128),
    "plum": (142, 69, 133),
}


def coloured(name: str, seed: int = 0, side: int = 160) -> np.ndarray:
    """A noisy photo of one colour (side, side, 3) uint8."""
    noise = np.random.default_rng(seed).normal(0, 12, (side, side, 3))
    return (np.array(COLOURS[name]) + noise).clip(0, 255).astype(np.uint8)


def fine_tuned() -> Any:
    """The model, trained for some seconds; its head is dropout and a layer, in a Sequential."""
    photos = np.stack([coloured(name, seed) for name in COLOURS for seed in range(2)])
    pixels = torch.from_numpy(photos).permute(0, 3, 1, 2).float() / 127.5 - 1
    wanted = torch.arange(len(COLOURS)).repeat_interleave(2)
    with seeded(4):
        model: Any = timm.create_model(ARCH, num_classes=1000)
        model.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(64, len(COLOURS)))
        model.train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
        for _ in range(40):
            loss = nn.functional.cross_entropy(model(pixels), wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


def write_files(folder: Path, model: nn.Module) -> tuple[Path, Path, Path]:
    """mine.safetensors, as Lightning names its weights; labels.txt; and a photo, plum.png."""
    weights, labels, photo = (folder / n for n in ("mine.safetensors", "labels.txt", "plum.png"))
    save_file({f"model.{name}": value for name, value in model.state_dict().items()}, weights)
    labels.write_text("\n".join(COLOURS) + "\n", encoding="utf-8")
    Image.fromarray(coloured("plum", 9, 200)).save(photo)
    return weights, labels, photo
