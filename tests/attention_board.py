"""The Attention tab's board in a browser: where its cells lie and what it shows."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from app.example_photos import FOLDER
from explainers.trace import Trace

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

LION = FOLDER / "lion.jpg"
PATIENCE = 45_000


def planted(trace: Trace, row: int, column: int) -> Trace:
    """The trace with every token of every head looking at one patch alone."""
    token = trace.prefix + row * trace.grid[1] + column
    calls = []
    for call in trace.calls:
        q, k = torch.zeros_like(call.q), torch.zeros_like(call.k)
        q[..., 0], k[..., token, 0] = 100 / call.scale, 1
        calls.append(replace(call, q=q, k=k))
    changed = copy.copy(trace)
    changed.calls = tuple(calls)
    return changed


def board(page: Page, url: str, photo: Path = LION, model: str | None = None) -> Locator:
    """Open the tab on a photo and wait for its numbers; the canvas with the photo."""
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector("#vs-model-note p:not(.vs-refused)")
    if model is not None:
        field = page.locator("#vs-model input")
        field.click()
        field.fill(model)
        field.press("Enter")
        page.get_by_text("5 classes").wait_for()
    page.set_input_files("#vs-photo input[type=file]", photo)
    page.get_by_role("tab", name="Attention", exact=True).click()
    page.wait_for_function("() => document.querySelector('#vs-attention .vs-board')?.shown?.()")
    canvas = page.locator("#vs-attention canvas.photo")
    canvas.scroll_into_view_if_needed()
    page.wait_for_timeout(300)  # the charts below have come, nothing moves any more
    return canvas


def shown(page: Page) -> dict[str, Any]:
    """What the board shows two frames from now, or once rows that it has asked for are there."""
    return page.evaluate(
        """() => new Promise(done => {
          const look = () => {
            const now = document.querySelector('#vs-attention .vs-board').shown();
            if (now) done({...now, values: Array.from(now.values)});
            else requestAnimationFrame(look);
          };
          requestAnimationFrame(() => requestAnimationFrame(look));
        })"""
    )


def place(page: Page, canvas: Locator, trace: Trace, row: int, column: int, at: float = 0.5) -> Any:
    """The point in the window (x, y) that lies in a patch, ``at`` from its left and top."""
    box = canvas.bounding_box()
    assert box is not None
    left, top, right, bottom = trace.geometry.cell_box(row, column)
    height, width = trace.geometry.photo_size
    x = box["x"] + (left + at * (right - left)) * box["width"] / width
    return x, box["y"] + (top + at * (bottom - top)) * box["height"] / height
