"""The options of the command line, read and checked as far as that needs no model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from explainers.command.terminal import EXIT_CODES
from explainers.command.values import count, method_name, method_names, pixels, place, setting, size
from explainers.models.devices import DEVICES, PRECISIONS
from explainers.models.loading import AUTO
from explainers.registry import DEFAULT_METHODS, methods
from explainers.version import __version__
from explainers.views.figure7 import COMPONENTS

PREDICTED, TRUE = "predicted", "true"
FORMATS = {"png": (".png",), "npz": (".npz",), "both": (".png", ".npz")}
RECIPE = ".json"

EXPLAIN = """Explain photos, and all photos in folders and their sub-folders (hidden ones left
out). DIR gets each photo's maps, in the same sub-folders as the photos; index.csv
with a row a photo; and contact_sheet.png, photos and maps together. Where a folder
is named after a class (label, WordNet id or index), it is the true class of the
photos in it, and accuracy and the most confused classes are printed. Run again,
photos finished with the same model, methods and settings are skipped."""

FIGURE7 = """The ViT paper's figure 7 of any model as one figure for a paper: principal
components of its patch filters, similarity of its position embeddings, and for every head
the mean attention distance and entropy, averaged over the photos (the paper took 128).
What a model lacks is told in its place. The caption is printed."""

REPLAY = """Make the maps of a recipe again: on the machine that made them, and with the same
versions, the same file byte for byte. Every file of maps carries its recipe, so it can be given
in its place. Another photo, other weights or other labels are refused."""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options as a namespace; ``command`` names what is to be done. SystemExit as argparse."""
    top = _Parser(
        prog="python -m explainers",
        description="What a Vision Transformer looked at in photos, and what counted.",
    )
    top.add_argument("--version", action="version", version=f"ViTScope {__version__}")
    commands = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Parser
    )
    _add_explain(commands.add_parser("explain", help="explain photos", description=EXPLAIN))
    _add_replay(
        commands.add_parser("replay", help="make the maps of a recipe again", description=REPLAY)
    )
    _add_figure7(
        commands.add_parser("figure7", help="the ViT paper's figure 7", description=FIGURE7)
    )
    listing = commands.add_parser("models", help="list models and where their weights are")
    listing.add_argument("--search", metavar="TEXT", default="", help="only those with TEXT in it")
    cards = commands.add_parser("methods", help="list the methods, or show the card of one")
    cards.add_argument("name", nargs="?", type=method_name, metavar="NAME", help="a method's name")
    cards.add_argument("--markdown", action="store_true", help="all cards, as Markdown")
    return top.parse_args(argv)


class _Parser(argparse.ArgumentParser):
    """Options are never guessed from their beginnings; the exit codes stand under the help."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=EXIT_CODES,
            **options,
        )

    def error(self, message: str) -> NoReturn:
        """What is wrong, in one line; how it is used stands in the help."""
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("inputs", nargs="+", metavar="PHOTO|FOLDER", help="photos, and folders of photos")
    model = parser.add_argument_group("model")
    add = model.add_argument
    add(
        "--model",
        default=AUTO,
        metavar="NAME",
        help="embedded, auto (default: the preferred model where it is on this machine, else "
        "embedded), a timm name, or a weights file: .safetensors (.pth, .pt, .bin are opened "
        "for their tensors alone)",
    )
    add("--arch", metavar="NAME", help="the architecture of a weights file that does not name it")
    add("--labels", metavar="FILE", help="names of the classes: .txt, a line each, or .json")
    add(
        "--size",
        type=size,
        metavar="PIXELS|HxW|native",
        help="another model input (height x width), positions resampled; native: the whole photo "
        "at its own size",
    )
    add(
        "--long-side",
        type=pixels,
        metavar="PIXELS",
        help="look at the whole photo, nothing cut: resized so that its longer side is so long, "
        "rounded down to whole patches",
    )
    add(
        "--windows",
        action="store_true",
        help="k separate looks instead: overlapping windows of the model's own size, each with its "
        "own answer in its corner; with --long-side, on the photo at that size",
    )
    add(
        "--device",
        default=DEVICES[0],
        metavar="NAME",
        help="auto (default: CUDA, else MPS, else the CPU), cpu, cuda or mps",
    )
    add(
        "--dtype",
        choices=PRECISIONS,
        default="float32",
        help="the precision the model computes in; maps are float32 always",
    )
    maps = parser.add_argument_group("maps")
    add = maps.add_argument
    add(
        "--methods",
        type=method_names,
        default=DEFAULT_METHODS,
        metavar="NAME,…",
        help=f"default: {','.join(DEFAULT_METHODS)}; all: {', '.join(methods())}",
    )
    add(
        "--set",
        type=setting,
        action="append",
        default=[],
        dest="settings",
        metavar="METHOD.SETTING=VALUE",
        help="a setting of a method, as `methods NAME` lists them; may be given again",
    )
    add(
        "--target",
        default=PREDICTED,
        metavar="predicted|true|NAME|INDEX",
        help="the class to explain: the predicted one (default), the true one, or this one",
    )
    add("--against", metavar="NAME", help="a class to hold the target against: why not this one?")
    add("--only-wrong", action="store_true", help="maps only where the answer is not the true one")
    results = parser.add_argument_group("results")
    add = results.add_argument
    add("--out", type=place, default=Path("maps"), metavar="DIR", help="default: maps")
    add(
        "--format",
        choices=FORMATS,
        default="png",
        help="png: the map on the photo, its longer side at most 1024 pixels (default); "
        "npz: the numbers and how they were made; or both",
    )
    add(
        "--recipe",
        action="store_true",
        help="beside each map also its recipe (.json), for `replay`",
    )
    add(
        "--columns",
        type=count,
        metavar="N",
        help="photos side by side on the contact sheet, each with its maps",
    )
    add(
        "--measure",
        action="store_true",
        help="how well each map does: the class's probability while patches are deleted and "
        "inserted in its order, as areas in index.csv beside random orders and the centre "
        "first; some 180 passes a photo and 30 a map",
    )
    add("--force", action="store_true", help="explain finished photos again")
    add("--quiet", action="store_true", help="no progress bar and no remarks; results and errors")


def _add_replay(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recipe", type=Path, metavar="RECIPE", help=".json, or a file of maps")
    add("--photo", nargs="+", required=True, metavar="FILE", help="what the maps are of")
    add("--out", type=place, default=Path("replay.npz"), metavar="FILE", help="default: replay.npz")
    add("--model", metavar="NAME|FILE", help="where the recipe's model is, if it was a file")
    add("--arch", metavar="NAME", help="the architecture of a weights file that does not name it")
    add("--labels", metavar="FILE", help="names of the classes: .txt, a line each, or .json")
    add("--quiet", action="store_true", help="no progress bar")


def _add_figure7(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("inputs", nargs="+", metavar="PHOTO|FOLDER", help="photos, and folders of photos")
    add("--model", default=AUTO, metavar="NAME", help="as for explain")
    add("--arch", metavar="NAME", help="the architecture of a weights file that does not name it")
    add(
        "--size",
        type=size,
        metavar="PIXELS|HxW",
        help="another model input, positions resampled",
    )
    add("--device", default=DEVICES[0], metavar="NAME", help="auto, cpu, cuda or mps")
    add("--components", type=pixels, default=COMPONENTS, metavar="N", help="default: 28")
    add("--width", type=float, default=183, metavar="MM", help="of the figure; default: 183")
    add("--font", type=float, default=7, metavar="POINTS", help="size of the text; default: 7")
    add(
        "--out",
        type=place,
        default=Path("figure7.pdf"),
        metavar="FILE",
        help="default: figure7.pdf; or .svg, .png, .tiff",
    )
    add("--quiet", action="store_true", help="no progress bar")
