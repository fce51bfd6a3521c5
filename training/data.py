"""Images by class from folders or a tar archive: SPLIT/CLASS/image, or Tiny-ImageNet's way."""

from __future__ import annotations

import io
import os
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from explainers.image import Photo
from training.errors import TrainingError
from training.tiny_imagenet import LIST, ORDER, TEXTS, WORDS, by_class, in_order, names_of

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm")
ARCHIVES = (".tar", ".tar.gz", ".tgz")
TESTS = ("test", "val")
"""Names of the split that a model is tested on; the first that is there."""

Classes = dict[str, dict[str, "Path | bytes"]]
"""class → file name → where its bytes are."""


@dataclass
class Found:
    """splits: by name. texts: the files of `TEXTS` that are there."""

    splits: dict[str, Classes] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Decoded photos in memory, with the index (N,) of each one's class in ``classes``.

    names: what the data call a class whose folder has a WordNet id; empty without words.txt.
    """

    photos: tuple[Photo, ...]
    targets: Tensor
    classes: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.photos)


def read_split(source: Path, split: str | None = None, images: int | None = None) -> ImageSet:
    """One split, without a name the one that models are tested on.

    images: at most so many, equally many a class, first by name. Raises TrainingError, in one
    sentence, for data that are missing, half-written or damaged.
    """
    found = _find(source, (split,) if split else TESTS)
    split = split or next((name for name in TESTS if name in found.splits), TESTS[0])
    return _decoded(source, found, split, _demand(source, found, split), images)


def read_data(
    source: Path, images: int | None = None, test_images: int | None = None
) -> tuple[ImageSet, ImageSet]:
    """The training and the test images, at most so many of each, of the same classes."""
    found = _find(source, ("train", *TESTS))
    train = _demand(source, found, "train")
    name = next((name for name in TESTS if name in found.splits), TESTS[0])
    test = _demand(source, found, name)
    odd = sorted(set(train) ^ set(test))
    if odd:
        raise TrainingError(
            f"{source.name} has {len(train)} classes in train and {len(test)} in {name}; "
            f"{', '.join(odd[:3])} is in one of them only. Both need the same class folders."
        )
    return (
        _decoded(source, found, "train", train, images),
        _decoded(source, found, name, test, test_images),
    )


def _find(source: Path, splits: Sequence[str]) -> Found:
    """The images of the splits, in the order of their names."""
    if not source.exists():
        raise TrainingError(
            f"There is no data at {source}; expected a folder, or a {', '.join(ARCHIVES)} file, "
            "with train/CLASS/ and test/CLASS/ images."
        )
    found = Found()
    entries = _in_folder(source, splits) if source.is_dir() else _in_archive(source)
    for parts, place in sorted(entries, key=lambda entry: entry[0]):
        if parts[-1] in TEXTS and place is not None:
            found.texts[parts[-1]] = _text(place)
            continue
        split = next((i for i, part in enumerate(parts) if part in splits), None)
        if split is None or len(parts) < split + 2:
            continue
        files = found.splits.setdefault(parts[split], {}).setdefault(parts[split + 1], {})
        if place is not None:
            files["/".join(parts)] = place
    if LIST in found.texts:  # Tiny-ImageNet: its test images have no classes
        found.splits.pop("test", None)
        if set(found.splits.get("val", ())) == {"images"}:
            found.splits["val"] = by_class(found.splits["val"], found.texts[LIST])
    return found


def _in_folder(
    source: Path, splits: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], Path | None]]:
    """(split, class, …, file) of every image; (split, class) alone for every class folder."""
    for text in (source / WORDS, source / ORDER, source / "val" / LIST):
        if text.is_file():
            yield text.relative_to(source).parts, text
    for split in splits:
        for folder, _, files in os.walk(source / split, followlinks=True):
            parts = Path(folder).relative_to(source).parts
            if len(parts) == 2:
                yield parts, None
            if len(parts) >= 2:
                images = [name for name in files if name.lower().endswith(SUFFIXES)]
                yield from (((*parts, name), Path(folder, name)) for name in images)


def _in_archive(source: Path) -> Iterator[tuple[tuple[str, ...], bytes | None]]:
    if not source.name.lower().endswith(ARCHIVES):
        raise TrainingError(
            f"{source.name} is neither a folder nor an archive; expected {', '.join(ARCHIVES)}."
        )
    try:
        with tarfile.open(source, "r|*") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                wanted = parts[-1:] and (parts[-1] in TEXTS or parts[-1].lower().endswith(SUFFIXES))
                if member.isfile() and wanted:
                    file = archive.extractfile(member)
                    if file is not None:
                        yield parts, file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise TrainingError(
            f"{source.name} is damaged or only half there ({error}); download it again."
        ) from error


def _text(place: Path | bytes) -> str:
    found = place if isinstance(place, bytes) else place.read_bytes()
    return found.decode("utf-8", "replace")


def _demand(source: Path, found: Found, split: str) -> Classes:
    """The classes of a split, every one with images."""
    classes = found.splits.get(split)
    if not classes:
        raise TrainingError(
            f"{source.name} holds no images in {split}/CLASS/; expected a folder for each class."
        )
    empty = [name for name, files in classes.items() if not files]
    if empty:
        raise TrainingError(
            f"The class folder {split}/{empty[0]} of {source.name} holds no images "
            f"({len(empty)} of {len(classes)} classes are empty); the data seem half-written, so "
            "unpack them again."
        )
    return classes


def _decoded(
    source: Path, found: Found, split: str, classes: Classes, images: int | None
) -> ImageSet:
    names = in_order(classes, found.texts.get(ORDER))
    each = None if images is None else images // len(names)
    if each == 0:
        raise TrainingError(
            f"{images} images are fewer than the {len(names)} classes of {source.name}; ask for "
            "at least one image a class."
        )
    photos, targets = [], []
    for index, name in enumerate(names):
        for file, place in list(classes[name].items())[:each]:
            photos.append(_photo(source, file, place))
            targets.append(index)
    called = names_of(names, found.texts.get(WORDS))
    return ImageSet(tuple(photos), torch.tensor(targets), names, called)


def _photo(source: Path, file: str, place: Path | bytes) -> Photo:
    try:
        with Image.open(io.BytesIO(place) if isinstance(place, bytes) else place) as image:
            return Photo(np.asarray(image.convert("RGB")), PurePosixPath(file).name)
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError) as error:
        raise TrainingError(
            f"{file} of {source.name} is no whole image ({error}); the data seem half-written, so "
            "unpack or download them again."
        ) from error
