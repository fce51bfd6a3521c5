"""What the maps of a comparison are called: each name says what the map explains."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import combinations

from app import cards
from app.comparison import Cell, Comparison
from app.texts import of_method, say
from explainers import HeatMap, methods
from explainers.models.labels import short
from explainers.views.agreement import difference


def row(lang: str, found: Comparison, photo: int, model: str, cells: Sequence[Cell]) -> str:
    """A row's head: the model, what it answered, and what this row's maps explain."""
    lines = [f"<b>{escape(model)}</b>"]
    answer = found.answers.get((photo, model))
    if answer is not None:
        label, probability = answer
        text = say(lang, "compare_answer", label=short(label), percent=f"{100 * probability:.1f}")
        lines.append(escape(text))
    heat = next((c.heat for c in cells if c.heat is not None and c.heat.target is not None), None)
    if heat is not None and heat.target is not None:
        contrast = found.asked.scene.against is not None
        if contrast or answer is None or heat.target.label != answer[0]:
            aim = _with_contrast(lang, found, heat, cards.target_name(heat.target))
            lines.append(f"<span>{escape(say(lang, 'compare_class', label=aim))}</span>")
    return "<br>".join(lines)


def title(lang: str, found: Comparison, cell: Cell, with_photo: bool = True) -> str:
    """A map's name: method, class and contrast, model where there are several, photo likewise."""
    parts = [of_method(lang, methods()[cell.method], "title")]
    if cell.heat is not None and cell.heat.target is not None:
        parts.append(_aim(lang, found, cell.heat))
    if len(found.asked.models) > 1:
        parts.append(cell.model)
    photo = found.photos[cell.photo]
    if with_photo and len(found.photos) > 1 and photo is not None:
        parts.append(photo.name)
    return " · ".join(parts)


def speaking(lang: str, found: Comparison, heats: Sequence[HeatMap]) -> str:
    """What several maps explain, each thing once."""
    aims = dict.fromkeys(_aim(lang, found, heat) for heat in heats)
    return say(lang, "compare_speaking", aims="; ".join(aims))


def choices(lang: str, found: Comparison) -> list[tuple[str, int]]:
    """(name, place) of the maps that are there."""
    return [
        (f"{place + 1}. {title(lang, found, cell)}", place)
        for place, cell in enumerate(found.cells)
        if cell.heat is not None
    ]


def first_pair(found: Comparison) -> list[int]:
    """Two maps to begin with: the first that can be subtracted, else the first two."""
    ready = [place for place, cell in enumerate(found.cells) if cell.heat is not None]
    pairs = ([a, b] for a, b in combinations(ready, 2) if _subtract(found, a, b))
    return next(pairs, ready[:2])


def _subtract(found: Comparison, first: int, second: int) -> bool:
    """Whether the difference of two maps is a map."""
    heats = found.cells[first].heat, found.cells[second].heat
    if heats[0] is None or heats[1] is None:
        return False
    try:
        difference(heats[0], heats[1])
    except ValueError:
        return False
    return True


def _aim(lang: str, found: Comparison, heat: HeatMap) -> str:
    """What a map explains: "barrel, not cougar"."""
    if heat.target is None:
        return say(lang, "compare_any")
    return _with_contrast(lang, found, heat, short(heat.target.label))


def _with_contrast(lang: str, found: Comparison, heat: HeatMap, label: str) -> str:
    if heat.against is not None:
        return say(lang, "compare_not", label=label, against=short(heat.against.label))
    if found.asked.scene.against is not None:
        return say(lang, "compare_itself", label=label)
    return label
