"""Milliseconds from the pointer's move to the attention that is drawn for it, in a browser.

python -m benchmarks.hover [--moves 300]

From the event's own time stamp to the end of the animation frame that draws its row, the rows being
in the page already; and what the page asks the server meanwhile, which shall be nothing.
"""

from __future__ import annotations

import argparse
import random
from typing import TYPE_CHECKING, Any

import numpy as np

from app.page import Page as ViTScope

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIDES = {"14 × 14 patches": None, "16 × 16 patches": 224}
"""Grid → the long side that the embedded model looks at (None: its own)."""

BOARD = "document.querySelector('#vs-attention .vs-board')"

# Runs after the board's own frame, which was asked for by the same event before it.
WATCH = """(photo) => {
  window.taken = [];
  photo.addEventListener('pointermove', (event) => requestAnimationFrame(
    () => window.taken.push(performance.now() - event.timeStamp)));
}"""


def moves(page: Page, address: str, side: int | None, count: int) -> dict[str, Any]:
    """What ``count`` moves over the Attention tab's photo took; the lion's is square."""
    look = f"&look=whole&side={side}" if side else ""
    page.goto(f"{address}?photo=lion&tab=attention&methods=rollout{look}")
    page.locator("#vs-status", has_text="Maps ready").wait_for(state="attached")
    page.wait_for_function(f"() => {BOARD}?.shown?.()")
    canvas = page.locator("#vs-attention canvas.photo")
    canvas.scroll_into_view_if_needed()
    page.wait_for_timeout(3000)  # the measures below the maps are made meanwhile
    box = canvas.bounding_box()
    if box is None:
        raise SystemExit("the Attention tab shows no photo")
    canvas.evaluate(WATCH)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    shuffled = random.Random(0)
    for _ in range(count):
        x, y = shuffled.random(), shuffled.random()
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        page.wait_for_timeout(20)
    taken = page.evaluate("window.taken")
    tokens = len(page.evaluate(f"{BOARD}.shown().values"))
    return {"taken": taken, "asked": len(asked), "tokens": tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=300)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    scope = ViTScope()
    scope.warm()
    _, address, _ = scope.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=options.browser, args=["--no-sandbox"])
        for name, side in SIDES.items():
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            found = moves(page, address, side, options.moves)
            page.close()
            half, most = np.percentile(found["taken"], [50, 95])
            print(
                f"{name}, {found['tokens']} tokens: median {half:.1f} ms, 95 % {most:.1f} ms over "
                f"{len(found['taken'])} moves; {found['asked']} requests to the server"
            )
        browser.close()
    scope.demo.close()


if __name__ == "__main__":
    main()
