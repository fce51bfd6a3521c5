"""Attention of a chosen token, where none decides: in the library, on the page, in a terminal."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.comparing import comparing
from app.comparison import CHOSEN, Asked
from app.explaining import Mapped, Refused, explaining
from app.studio import Studio
from explainers import VisionModel, explain, load_photo, wrap_model
from explainers.command.arguments import parse
from explainers.command.plan import Plan, check_settings, make_plan, supported
from explainers.command.terminal import CommandError
from tests.grid_looks import wrapped
from tests.small_page import ask, photo_file, studio
from tests.tiny import LABELS, tiny_vit

ROW = {"block": 0, "row": 40}
"""In Hiera's first block, whose grid is finer than the last one's."""


def models() -> dict[str, VisionModel]:
    pooled = tiny_vit(global_pool="max", class_token=False, num_classes=len(LABELS))
    return {"hiera": wrapped("hiera"), "max": wrap_model(pooled, labels=LABELS)}


@pytest.mark.parametrize("name", ["hiera", "max"])
def test_the_page_shows_the_row_that_was_chosen(
    studio: Studio, photo_file: Path, name: str
) -> None:
    vit = models()[name]
    studio.models.add(name, vit)
    given = {"attention": ROW if name == "hiera" else {"block": 1, "row": 3}}
    asked = ask(photo_file, ("attention",), model=name, parameters=given)
    (found,) = (e for e in explaining(studio, studio.desks.of("a"), asked) if type(e) is Mapped)
    expected = explain("attention", vit.trace(load_photo(photo_file)), **given["attention"])
    assert np.array_equal(found.heat.values, expected.values)  # type: ignore[union-attr]


def test_without_a_row_the_reason_is_told(studio: Studio, photo_file: Path) -> None:
    studio.models.add("max", models()["max"])
    asked = ask(photo_file, ("attention",), model="max")
    events = list(explaining(studio, studio.desks.of("a"), asked))
    (refused,) = (event for event in events if isinstance(event, Refused))
    assert "a chosen token can still be seen" in str(refused.reason)


def test_compared_maps_are_of_the_chosen_row_too(studio: Studio, photo_file: Path) -> None:
    studio.models.add("hiera", wrapped("hiera"))
    scene = ask(photo_file, model="hiera").scene
    asked = Asked(
        scene, (str(photo_file),), ("hiera",), ("attention",), (CHOSEN,), {"attention": ROW}
    )
    *_, found = comparing(studio, studio.desks.of("a"), asked)
    assert found.cells[0].reason is None
    assert found.cells[0].heat is not None


def plan(name: str, *given: str) -> Plan:
    options = parse(["explain", "x.png", "--methods", "attention", *given])
    made = make_plan(options, models()[name])
    check_settings(made)
    return made


def test_a_terminal_takes_the_rows_of_the_block_that_was_chosen() -> None:
    rows = ("--set", "attention.block=0", "--set")
    assert supported(plan("hiera", *rows, "attention.row=255")) == ("attention",)  # 16 × 16
    with pytest.raises(ValueError, match=r"row must be a whole number in 0\.\.255"):
        plan("hiera", *rows, "attention.row=256")
    with pytest.raises(CommandError, match="None of the methods works"):
        supported(plan("max"))
    assert supported(plan("max", "--set", "attention.row=3"))
    assert supported(plan("hiera", "--windows", *rows, "attention.row=9999"))  # each photo tells
