"""``/compare``: how far the maps of several methods or models agree on one photo."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app import api_fields as fields
from app.api_asked import checked_settings, listed, method_names
from app.api_call import calling, scene_of, target_of
from app.api_fields import MODEL
from app.api_offer import offer
from app.comparing import comparing
from app.comparison import CHOSEN, Asked, Cell, Comparison
from app.desks import Desk
from app.files import write_png
from app.making import Outdated
from app.studio import Studio
from app.texts import say
from explainers import HeatMap
from explainers.sentence import Sentence
from explainers.views.agreement import agreement, difference

COMPARED = "attention, rollout"
"""The methods where none are named."""


def add(studio: Studio) -> None:
    """Add it."""

    def compare(
        request: gr.Request,
        photo: str | None,
        models: str | None,
        methods: str | None,
        target: str | None,
        settings: Any = None,
    ) -> Any:
        """How far maps of one photo agree: of several methods, of several models, or of both.

        Args:
            photo: the photo's file
            models: names of models that are on this machine, separated by commas; three at most
            methods: names of methods, separated by commas
            target: the class to explain, by index or label; empty for each model's likeliest
            settings: settings of methods that are not the usual ones: method → setting → value

        Returns:
            agreement: maps, refused, grid, spearman and overlap (a row and a column each map), …
            overlays: each map on the photo, its model and title as the caption
            differences: of two models, the first's map minus the second's, a picture a method
        """
        with calling(studio, request) as desk:
            names = tuple(listed(models)) or (MODEL,)
            chosen = method_names(COMPARED if methods is None else methods)
            if len(names) * len(chosen) < 2:
                raise ValueError(_two())
            parameters = checked_settings(settings)
            scene = scene_of(studio, desk, photo, names[0])
            classes = ((target or "").strip() or CHOSEN,)
            wish = Asked(scene, (str(scene.photo),), names, chosen, classes, parameters)
            made = compared(studio, desk, wish)
            return shown(desk, made)

    asked = [
        fields.photo(),
        fields.text("models", MODEL),
        fields.text("methods", COMPARED),
        fields.text("target"),
        fields.settings(),
    ]
    given = [
        gr.JSON(label="agreement"),
        gr.Gallery(label="overlays", format="png"),
        gr.Gallery(label="differences", format="png"),
    ]
    offer("compare", compare, asked, given)


def compared(studio: Studio, desk: Desk, wish: Asked) -> Comparison:
    """The whole comparison; ValueError with the reason where it has no map at all."""
    for made in comparing(studio, desk, wish):
        last = made
    if any(cell.waiting for cell in last.cells):
        raise Outdated
    if not last.heats:
        raise ValueError(last.cells[0].reason)
    return last


def shown(desk: Desk, made: Comparison) -> tuple[Any, ...]:
    """The answer of ``/compare``: the figures, the maps, and what two models differ by."""
    cells = [cell for cell in made.cells if cell.heat is not None]
    pairs = _pairs(made)
    answer = {
        "maps": [_named(cell) for cell in cells],
        "answers": {
            model: {"label": label, "probability": probability}
            for (_, model), (label, probability) in made.answers.items()
        },
        "refused": [
            {"model": cell.model, "method": cell.method, "reason": _reason(cell.reason)}
            for cell in made.cells
            if cell.heat is None
        ],
        **_agreed([heat for heat in made.heats if heat.kind != "rgb"]),
        "differences": [
            {"method": method, "values": heat.values.tolist()} for method, heat in pairs.items()
        ],
    }
    overlays = [
        (_drawn(desk, heat), f"{cell.model}: {heat.title}")
        for cell, heat in zip(cells, made.heats, strict=True)
    ]
    differences = [(_drawn(desk, heat), heat.title) for heat in pairs.values()]
    return answer, overlays, differences


def _agreed(heats: list[HeatMap]) -> dict[str, Any]:
    """Rank correlations, and overlaps of the strongest fifths; null of fewer than two maps.

    Maps of three colours a cell have no order; they are not among ``ranked``.
    """
    if len(heats) < 2:
        return {"ranked": [], "grid": None, "spearman": None, "overlap": None}
    found = agreement(heats)
    return {
        "ranked": [heat.provenance["model"] + ": " + heat.method for heat in heats],
        "grid": list(found.geometry.grid),
        "spearman": found.spearman.tolist(),
        "overlap": found.overlap.tolist(),
    }


def _pairs(made: Comparison) -> dict[str, HeatMap]:
    """Method → the first model's map minus the second's; none but of two models."""
    if len(made.asked.models) != 2:
        return {}
    found = {}
    for method in made.asked.methods:
        both = [cell.heat for cell in made.cells if cell.method == method and cell.heat is not None]
        if len(both) == 2 and both[0].kind != "rgb":
            found[method] = difference(both[0], both[1])
    return found


def _named(cell: Cell) -> dict[str, Any]:
    heat = cell.heat
    target = None if heat is None else target_of(heat.target)
    return {"model": cell.model, "method": cell.method, "target": target}


def _reason(reason: Sentence | None) -> str:
    return str(reason or say("en", "unexpected"))


def _drawn(desk: Desk, heat: HeatMap) -> str:
    return write_png(heat.overlay(), desk.folder, heat.method)


def _two() -> Sentence:
    return Sentence(
        "api_compare_two", "A comparison takes two maps or more; name two methods or two models."
    )
