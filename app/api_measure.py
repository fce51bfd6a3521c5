"""``/measure``: how far a map can be trusted, by deleting or inserting its patches."""

from __future__ import annotations

from typing import Any, get_args

import gradio as gr
import numpy as np

from app import api_fields as fields
from app.api_asked import checked_settings, model_name
from app.api_call import Found, aimed, calling, done, found, loaded, scene_of, target_of
from app.api_fields import METHODS, MODEL, demand
from app.api_offer import offer
from app.desks import Desk
from app.measuring import measure_key
from app.scene import Request
from app.studio import Studio
from app.work import Report
from explainers.measures import Curve, Measure, measure
from explainers.measures.curves import Kind
from explainers.registry import find_method, methods

KINDS: tuple[Kind, ...] = get_args(Kind)


def add(studio: Studio) -> None:
    """Add it."""

    def measure_map(
        request: gr.Request,
        photo: str | None,
        model: str | None,
        method: Any,
        target: str | None,
        against: str | None,
        kind: Any,
        settings: Any = None,
    ) -> dict[str, Any]:
        """Delete (or insert) a photo's patches in the order of a map, best first, beside random
        orders and the photo's middle: how the class's probability follows.

        Args:
            photo: the photo's file
            model: a model that is on this machine; /models lists them
            method: the method whose map is measured
            target: the class explained and watched, by index or label; empty for the likeliest
            against: a class that the map holds it against; empty for none
            kind: deletion (a low area is good) or insertion (a high one)
            settings: settings of the method that are not the usual ones: method → setting → value

        Returns:
            measure: sentence, areas in words (comparison), target, and curves: map, random, centre
        """
        with calling(studio, request) as desk:
            demand("kind", kind, KINDS)
            name = find_method(method).name
            scene = scene_of(studio, desk, photo, model_name(model))
            vit = loaded(studio, desk, scene.model)
            scene = aimed(scene, vit, target, against)
            wish = Request(scene, (name,), checked_settings(settings, vit))
            return told(measured(studio, desk, wish, found(studio, desk, wish), kind))

    asked = [
        fields.photo(),
        fields.text("model", MODEL),
        fields.choice("method", [METHODS, *(name for name in methods() if name != METHODS)]),
        fields.text("target"),
        fields.text("against"),
        fields.choice("kind", KINDS),
        fields.settings(),
    ]
    offer("measure", measure_map, asked, [gr.JSON(label="measure")])


def measured(studio: Studio, desk: Desk, wish: Request, made: Found, kind: Kind) -> Measure:
    """The full measure of the one map of a request, curves and all."""
    heat, answered = made.heat, made.answered

    def make(report: Report) -> Measure:
        trace, target = answered.trace, answered.target
        return measure(heat, trace, kind, target=target, full=True, progress=report)

    key = kind, measure_key(wish, heat, answered, full=True)
    return done(studio.aside(desk, key, make))


def told(found: Measure) -> dict[str, Any]:
    """A full measure as plain values. random: the mean of the orders, and what it varies by."""
    mean, deviation = found.random_area
    orders = np.array([curve.values for curve in found.random])
    return {
        "sentence": str(found.sentence),
        "comparison": str(found.comparison),
        "kind": found.kind,
        "target": target_of(found.target),
        "map": _curve(found.curve),
        "random": {
            **_curve(Curve(found.random[0].shares, orders.mean(0))),
            "area": mean,
            "area_deviation": deviation,
        },
        "centre": None if found.centre is None else _curve(found.centre),
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {"shares": curve.shares.tolist(), "values": curve.values.tolist(), "area": curve.area}
