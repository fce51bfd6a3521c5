"""Fields that hold a value of the model before, or one that was typed: no event is lost."""

from __future__ import annotations

import pytest

from app.fields import Menu, Number, Slider
from app.page import Page
from explainers import methods
from explainers.registry import Parameter


@pytest.mark.parametrize(("sent", "taken"), [(11, 2), (-1, 0), (1, 1), (None, None)])
def test_a_slider_stays_within_its_bounds(sent: float | None, taken: float | None) -> None:
    assert Slider(0, 2, step=1).preprocess(sent) == taken


@pytest.mark.parametrize(("sent", "taken"), [("7", None), ("1", "1"), (None, None)])
def test_a_menu_is_empty_where_its_choice_is_gone(sent: str | None, taken: str | None) -> None:
    assert Menu([("head 0", "0"), ("head 1", "1")]).preprocess(sent) == taken


@pytest.mark.parametrize(("sent", "taken"), [(-5, -5), (2.4, 2), (None, None)])
def test_a_typed_number_is_handed_on(sent: float | None, taken: float | None) -> None:
    assert Number(minimum=1, precision=0).preprocess(sent) == taken


def test_no_setting_loses_an_event() -> None:
    """What the bounds of a larger model admitted, or a person typed, reaches the methods."""
    kinds = {(m.name, p.name): p for m in methods().values() for p in m.parameters}
    for place, control in Page().widgets.tab.controls.items():
        parameter: Parameter = kinds[place]
        if parameter.kind != "choice":
            control.preprocess("99" if parameter.kind == "head" else 10**6)
