"""Top-1 and top-5 accuracy of the embedded model, against its card.

python -m benchmarks.accuracy photos FOLDER          FOLDER holds photos.csv (file, wnid)
python -m benchmarks.accuracy tiny-imagenet ARCHIVE  a .tar.gz or folder with val/
… --size 112 --first 2000
"""

from __future__ import annotations

import argparse
import csv
import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from tqdm import tqdm

from explainers import load_model, load_photo

CARD = Path("explainers/models/weights/vit_small_patch14_tiny_imagenet.json")


def photos(folder: Path) -> Iterator[tuple[Path, str]]:
    """(file, WordNet id) of the photos whose class the model knows."""
    with (folder / "photos.csv").open() as lines:
        for row in csv.DictReader(lines):
            yield folder / row["file"], row["wnid"]


def tiny_imagenet(folder: Path) -> Iterator[tuple[Path, str]]:
    """(file, WordNet id) of the validation images, in the order of their list."""
    listing = next(folder.rglob("val_annotations.txt"))
    for line in listing.read_text().splitlines():
        file, wnid = line.split("\t")[:2]
        yield listing.parent / "images" / file, wnid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("photos", "tiny-imagenet"))
    parser.add_argument("where", type=Path)
    parser.add_argument("--size", type=int, default=None, help="model input, pixels a side")
    parser.add_argument("--first", type=int, default=None, help="only so many images")
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args()
    vit = load_model("embedded", size=arguments.size)
    wnids = json.loads(CARD.read_text())["wnids"]
    with tempfile.TemporaryDirectory() as scratch:
        where = arguments.where
        if where.is_file():
            with tarfile.open(where) as archive:
                archive.extractall(scratch, filter="data")
            where = Path(scratch)
        found = photos(where) if arguments.kind == "photos" else tiny_imagenet(where)
        known = [(file, wnids.index(wnid)) for file, wnid in found if wnid in wnids]
        known = known[: arguments.first]
        hits = torch.zeros(2, dtype=torch.long)
        for start in tqdm(range(0, len(known), arguments.batch), unit="batch"):
            batch = known[start : start + arguments.batch]
            pixels, _ = vit.prepare([load_photo(file) for file, _ in batch])
            with torch.inference_mode():
                best = vit.logits(pixels).topk(5).indices
            right = best == torch.tensor([index for _, index in batch])[:, None]
            hits += torch.stack([right[:, 0].sum(), right.any(1).sum()])
    top1, top5 = (100 * hits / len(known)).tolist()
    height, width = vit.preprocessing.size
    print(f"{len(known)} images at {height}×{width}: top-1 {top1:.1f} %, top-5 {top5:.1f} %")


if __name__ == "__main__":
    main()
