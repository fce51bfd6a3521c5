"""Batches of model-input pixels: drawn by seed, cropped and flipped.

All draws of a step depend on (seed, epoch, step) only. So a run that goes on from its middle,
or that is spread over several processes, sees the very same pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from explainers.models.preprocessing import Preprocessing
from training.data import ImageSet
from training.plan import Plan

ORDER, PIXELS, DROPOUT = range(3)
"""What is drawn: each has numbers of its own."""


def drawn_from(*numbers: int) -> int:
    """A seed of 64 bits from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def generator(*numbers: int) -> torch.Generator:
    """A generator of its own for (seed, purpose, epoch, …)."""
    return torch.Generator().manual_seed(drawn_from(*numbers))


def epoch_batches(images: int, batch: int, seed: int, epoch: int) -> list[Tensor]:
    """Indices of an epoch's full batches; the images that fill no batch are left out."""
    order = torch.randperm(images, generator=generator(seed, ORDER, epoch))
    return list(order.split(batch))[: images // batch]


def windows(images: ImageSet, indices: Sequence[int], preprocessing: Preprocessing) -> Tensor:
    """What the model is given of the photos, before normalisation: uint8 (B, h, w, 3)."""
    return torch.from_numpy(np.stack([preprocessing.window(images.photos[i]) for i in indices]))


def augmented(pixels: Tensor, draws: Tensor, padding: float) -> Tensor:
    """Each picture (B, h, w, 3) moved within a black border, and every other one mirrored.

    draws: (B, 3) in 0..1, for down, across and mirroring. padding: the border's width as a part
    of the picture's side, 0.125 for the customary 4 pixels of 32; 0 for no moving.
    """
    count, height, width, _ = pixels.shape
    down, across = round(padding * height), round(padding * width)
    padded = F.pad(pixels, (0, 0, across, across, down, down))
    top = (draws[:, 0] * (2 * down + 1)).long()
    left = (draws[:, 1] * (2 * across + 1)).long()
    rows = (top[:, None] + torch.arange(height))[:, :, None]  # (B, h, 1)
    columns = left[:, None] + torch.arange(width)  # (B, w)
    mirrored = draws[:, 2] < 0.5
    columns[mirrored] = columns[mirrored].flip(1)
    return padded[torch.arange(count)[:, None, None], rows, columns[:, None, :]]


def cropped(
    images: ImageSet,
    indices: Sequence[int],
    preprocessing: Preprocessing,
    draws: Tensor,
    smallest: float,
) -> Tensor:
    """A random part of each photo, resized to the model's input, every other one mirrored.

    The part has the input's aspect, and ``smallest`` to 1 of the sides of the largest such part:
    44 to 64 pixels of a photo of 64 for 0.6875. draws: (B, 4) in 0..1, for its place down and
    across, mirroring and its size. uint8 (B, h, w, 3).
    """
    height, width = preprocessing.size
    method = Image.Resampling[preprocessing.interpolation.upper()]
    found = []
    for index, (down, across, mirror, part) in zip(indices, draws.tolist(), strict=True):
        photo = images.photos[index]
        scale = min(photo.height / height, photo.width / width)
        scale *= smallest + (1 - smallest) * part
        high, wide = (max(1, round(scale * side)) for side in (height, width))
        top = int(down * (photo.height - high + 1))
        left = int(across * (photo.width - wide + 1))
        crop = photo.to_pil().crop((left, top, left + wide, top + high))
        picture = np.asarray(crop.resize((width, height), method))
        found.append(picture[:, ::-1] if mirror < 0.5 else picture)
    return torch.from_numpy(np.stack(found))


def normalised(
    pixels: Tensor, preprocessing: Preprocessing, brightness: Tensor | None = None
) -> Tensor:
    """uint8 (B, h, w, 3) → float32 (B, 3, h, w), as `Preprocessing` does it.

    brightness: (B,) factors of the pixels, which stay within what a picture can hold.
    """
    scaled = pixels.permute(0, 3, 1, 2).to(torch.float32).div_(255)
    if brightness is not None:
        scaled.mul_(brightness[:, None, None, None]).clamp_(max=1)
    mean, std = (torch.tensor(v)[:, None, None] for v in (preprocessing.mean, preprocessing.std))
    return scaled.sub_(mean).div_(std)


def training_batch(
    images: ImageSet,
    indices: Tensor,
    part: slice,
    preprocessing: Preprocessing,
    draws: torch.Generator,
    plan: Plan,
) -> tuple[Tensor, Tensor]:
    """Pixels and targets of one process's part of a batch.

    Where the plan augments: with ``crop_from`` below 1 a random part of each photo (`cropped`),
    else moved within a border of ``padding`` (`augmented`); then brighter or darker by up to
    ``brightness``. Draws are made for the whole batch, so that they do not depend on the number
    of processes.
    """
    chances = torch.rand(len(indices), 3, generator=draws)[part]
    further = torch.rand(len(indices), 2, generator=draws)[part]
    mine = indices[part]
    factors = None
    if plan.augment and plan.crop_from < 1:
        places = torch.cat([chances, further[:, :1]], dim=1)
        pixels = cropped(images, mine.tolist(), preprocessing, places, plan.crop_from)
    else:
        pixels = windows(images, mine.tolist(), preprocessing)
        if plan.augment:
            pixels = augmented(pixels, chances, plan.padding)
    if plan.augment and plan.brightness:
        factors = 1 + plan.brightness * (2 * further[:, 1] - 1)
    return normalised(pixels, preprocessing, factors), images.targets[mine]


def test_batches(
    images: ImageSet, indices: Sequence[int], batch: int, preprocessing: Preprocessing
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pixels and targets of the images, in order, as the model will be used."""
    for start in range(0, len(indices), batch):
        some = indices[start : start + batch]
        pixels = windows(images, some, preprocessing)
        yield normalised(pixels, preprocessing), images.targets[list(some)]
