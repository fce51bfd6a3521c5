"""What a map of separate looks is called, and what is said of it."""

from __future__ import annotations

from explainers.registry import Method
from explainers.sentence import Sentence


def windows_title(title: str, count: int) -> Sentence:
    """What a map of separate looks is called."""
    return Sentence("windows_title", "{title}: {count} separate looks", title=title, count=count)


def windows_note(
    shape: tuple[int, int], size: tuple[int, int], overlap: float, own: bool
) -> Sentence:
    """How a photo was looked at: through ``shape`` windows of ``size`` pixels each.

    own: whether each was explained for a first answer of its own.
    """
    (rows, columns), (height, width) = shape, size
    values = {
        "rows": rows,
        "columns": columns,
        "height": height,
        "width": width,
        "percent": round(100 * overlap),
    }
    if own:
        return Sentence(
            "windows_own",
            "{rows}×{columns} windows of {height}×{width} pixels, each sharing at least "
            "{percent} % of its side with the next; each was looked at alone and explained for "
            "its own first answer, which stands in its corner. Where they overlap: the mean.",
            **values,
        )
    return Sentence(
        "windows_each",
        "{rows}×{columns} windows of {height}×{width} pixels, each sharing at least "
        "{percent} % of its side with the next; each was looked at alone, and its own first "
        "answer stands in its corner. Where they overlap: the mean.",
        **values,
    )


def no_colours(method: Method) -> Sentence:
    """Why a method that paints in colours has no map of windows."""
    return Sentence(
        "windows_colours",
        "{title} gives colours that mean something else in each window, so windows have no mean; "
        "look at the whole photo for it.",
        title=method.title,
    )
