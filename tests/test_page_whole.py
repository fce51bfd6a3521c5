"""The page as a whole: started by none, private, every control named, told anew what it missed."""

# ruff: noqa: F401, F811 - fixtures are known by their names

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from app.explaining import explaining
from app.page import Page
from app.showing import Showing
from app.studio import Studio
from tests.small_page import ask, merged, page, photo_file, studio


def test_importing_app_starts_nothing_and_loads_no_model(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("space_app", root / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.demo.is_running
    assert module.page.studio.models.names() == []


def test_the_page_keeps_photos_to_itself(page: Page) -> None:
    options = page.launch_options()
    assert options["run_history"] is False
    assert options["enable_monitoring"] is False
    assert options["show_error"] is False
    assert options["app_kwargs"]["middleware"]
    frequency, age = page.demo.delete_cache
    assert frequency + age <= 3600
    with pytest.raises(Exception, match="Web addresses are not accepted"):
        run_now(page.widgets.chooser.photo.async_move_resource_to_block_cache("https://a.b/c.png"))


def run_now(coroutine: Any) -> Any:
    import asyncio

    return asyncio.run(coroutine)


def test_every_control_has_a_name_and_public_endpoints_are_few(page: Page) -> None:
    public = {
        fn.api_name for fn in page.demo.fns.values() if fn.api_visibility == "public" and fn.fn
    }
    looking = {"explain", "attention", "measure", "compare", "figure", "figure7"}
    assert public == looking | {"models", "methods", "cost", "recipe", "replay"}
    for block in page.demo.blocks.values():
        if getattr(block, "interactive", None) and not hasattr(block, "variant"):
            assert getattr(block, "label", None), block


def test_what_the_page_was_not_told_is_told_again(
    page: Page, studio: Studio, photo_file: Path
) -> None:
    widgets, desk, request = page.widgets, studio.desks.of("a"), ask(photo_file, ("rollout",))

    def menu() -> tuple[Showing, bool]:
        """One request's side, and whether it fills the menu of classes."""
        showing = Showing("en", request, studio, desk, widgets.chooser, widgets.tab, widgets.ranks)
        updates = merged(showing.updates(event) for event in explaining(studio, desk, request))
        return showing, "choices" in updates[widgets.chooser.target]

    assert menu()[1] is True  # but a newer request came before that was told
    given, filled = menu()
    assert filled
    given.told()
    assert menu()[1] is False
