"""What is to be done to each photo: the model, its methods and their settings, the classes."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from explainers.command.arguments import FORMATS, PREDICTED, RECIPE, TRUE
from explainers.command.terminal import CommandError, warn
from explainers.command.values import NATIVE
from explainers.look import Look
from explainers.methods.parameters import ANY_COUNT, check_parameters
from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from explainers.registry import find_method
from explainers.sentence import Sentence
from explainers.version import __version__

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Plan:
    """The same for all photos of a run.

    settings: method → what was set of it. target: "predicted", "true" or a class's index.
    suffixes: the kinds of files written for each map. measure: whether each map is measured.
    look: how each photo is looked at.
    """

    vit: VisionModel
    methods: tuple[str, ...]
    settings: Mapping[str, Mapping[str, Any]]
    target: str | int
    against: int | None
    only_wrong: bool
    suffixes: tuple[str, ...]
    measure: bool
    out: Path
    look: Look

    @cached_property
    def _recipe(self) -> bytes:
        """All that a map depends on besides its photo, as bytes that are equal when it is."""
        recipe: dict[str, Any] = {
            "vitscope": __version__,
            "weights": self.vit.weights_hash,
            "preprocessing": asdict(self.vit.preprocessing),
            "labels": self.vit.labels,
            "methods": {
                name: {**find_method(name).defaults, **self.settings[name]} for name in self.methods
            },
            "target": self.target,
            "against": self.against,
            "only_wrong": self.only_wrong,
            "suffixes": self.suffixes,
        }
        if self.measure:  # named only then: what was finished without measures stays finished
            recipe["measure"] = True
        if self.look != Look():
            recipe["look"] = asdict(self.look)
        return json.dumps(recipe, sort_keys=True).encode()

    def fingerprint(self, photo: Path, true: int | None) -> str:
        """16 hex digits that are others when the photo's bytes, its class or the plan are."""
        digest = hashlib.sha256(self._recipe)
        digest.update(f" {true} ".encode())
        with open(photo, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()[:16]


def make_plan(options: argparse.Namespace, vit: VisionModel) -> Plan:
    """The plan that the options ask for; classes are looked up, methods not yet tried.

    Raises ValueError for an unknown class, or settings of a method that is not chosen.
    """
    settings: dict[str, dict[str, Any]] = {name: {} for name in options.methods}
    for name, setting, value in options.settings:
        if name not in settings:
            raise CommandError(
                Sentence(
                    "command_unused_setting",
                    "{setting} is set for {method}, which is not among the methods; add it to "
                    "--methods, or leave the setting out.",
                    setting=setting,
                    method=name,
                )
            )
        settings[name][setting] = value
    asked = options.target != PREDICTED or options.against is not None
    if (asked or options.only_wrong or options.measure) and not vit.classes:
        raise ModelError(vit.supports("saliency").reason)
    target = options.target
    if target not in (PREDICTED, TRUE):
        target = vit.find_class(target)
    against = None if options.against is None else vit.find_class(options.against)
    if against is not None and against == target:
        raise CommandError(
            Sentence(
                "command_same_class",
                "--target and --against are the same class ({label}); choose two.",
                label=vit.label(against),
            )
        )
    return Plan(
        vit=vit,
        methods=options.methods,
        settings=settings,
        target=target,
        against=against,
        only_wrong=options.only_wrong,
        suffixes=(*FORMATS[options.format], *((RECIPE,) if options.recipe else ())),
        measure=options.measure,
        out=options.out,
        look=_look(options),
    )


def _look(options: argparse.Namespace) -> Look:
    """How photos are looked at. CommandError for options that contradict each other."""
    if options.size is not None and options.long_side is not None and not options.windows:
        raise CommandError(
            Sentence(
                "command_two_sizes",
                "--size and --long-side each choose the size of the look; give one of them.",
            )
        )
    if options.windows and options.measure:
        raise CommandError(
            Sentence(
                "command_measure_windows",
                "Separate looks have no one answer to measure a map by; leave out --measure or "
                "--windows.",
            )
        )
    if options.windows:
        return Look("windows", options.long_side)
    if options.long_side is not None or options.size == NATIVE:
        return Look("whole", options.long_side)
    return Look()


def supported(plan: Plan) -> tuple[str, ...]:
    """The methods that this model allows; why not, once, for the others.

    The first call runs the model, to try it. CommandError when no method is left.
    """
    left = []
    for name in plan.methods:
        support = plan.vit.supports(name, row=plan.settings.get(name, {}).get("row"))
        if support:
            left.append(name)
        else:
            warn(f"{name} is left out: {support.reason}")
    if not left:
        raise CommandError(
            Sentence(
                "command_no_method",
                "None of the methods works for {model}; choose others with --methods.",
                model=plan.vit.name,
            )
        )
    return tuple(left)


def check_settings(plan: Plan) -> None:
    """Compare the settings with the model's own blocks, heads and tokens; ValueError."""
    adapter = plan.vit.adapter
    for name, given in plan.settings.items():
        tokens = _tokens(plan, given.get("block", -1))
        check_parameters(find_method(name), given, adapter.depth, adapter.heads, tokens)


def _tokens(plan: Plan, block: int) -> int:
    """How many rows of attention a block has, or any number: of other looks the photo tells."""
    adapter = plan.vit.adapter
    if plan.look != Look() or not -adapter.depth <= block < adapter.depth:
        return ANY_COUNT
    rows, columns = adapter.block_grids(block % adapter.depth, plan.vit.preprocessing.size)[0]
    return adapter.prefix + rows * columns
