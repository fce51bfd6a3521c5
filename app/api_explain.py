"""``/explain`` and ``/recipe``: the maps of a photo, and what they are made again from."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import gradio as gr

from app import api_fields as fields
from app import handlers
from app.api_asked import checked_settings, look_of, method_names, model_name
from app.api_call import aimed, calling, found, loaded, new_file, scene_of
from app.api_fields import METHODS, MODEL
from app.api_offer import offer
from app.desks import Desk
from app.files import write_png
from app.link_values import LOOKS
from app.scene import Request
from app.studio import Studio
from app.texts import say
from explainers.recipe import recipe_of
from explainers.render.npz import npz_bytes


def add(studio: Studio) -> None:
    """Add both; they take the same."""

    def explain(
        request: gr.Request,
        photo: str | None,
        model: str | None,
        methods: str | None,
        target: str | None,
        against: str | None,
        size: Any,
        long_side: Any = None,
        settings: Any = None,
    ) -> Any:
        """Explain a photo: the model's five likeliest classes, an overlay a method, all maps.

        Args:
            photo: the photo's file
            model: a model that is on this machine; /models lists them
            methods: names of methods, separated by commas; /methods lists them
            target: the class to explain, by index or label; empty for the likeliest
            against: a class to hold it against; empty for none
            size: own (the model's own), whole (the whole photo, nothing cut) or windows of it
            long_side: the photo's, in pixels; null for its own, 2048 at most, or for two windows
            settings: settings of methods that are not the usual ones: method → setting → value

        Returns:
            answer: top (five classes), target (index explained), refused (method → reason)
            overlays: each map on the photo, its title as the caption
            maps: the numbers of all maps with what made them, as NPZ; null where there is none
        """
        with calling(studio, request) as desk:
            return explain_photo(
                *(studio, desk, photo, model, methods, target, against),
                size=size,
                long_side=long_side,
                settings=settings,
            )

    def recipe(
        request: gr.Request,
        photo: str | None,
        model: str | None,
        methods: str | None,
        target: str | None,
        against: str | None,
        size: Any,
        long_side: Any = None,
        settings: Any = None,
    ) -> Any:
        """The recipe of the maps that /explain makes of the same values; /replay follows it.

        Args:
            photo: the photo's file; no recipe holds it
            model: a model that is on this machine; /models lists them
            methods: names of methods, separated by commas; /methods lists them
            target: the class to explain, by index or label; empty for the likeliest
            against: a class to hold it against; empty for none
            size: own (the model's own), whole (the whole photo, nothing cut) or windows of it
            long_side: the photo's, in pixels; null for its own, 2048 at most, or for two windows
            settings: settings of methods that are not the usual ones: method → setting → value

        Returns:
            recipe: what made each map
            file: the same as a JSON file
        """
        with calling(studio, request) as desk:
            wish = wish_of(
                *(studio, desk, photo, model, methods, target, against),
                *(size, long_side, settings),
            )
            made = found(studio, desk, wish)
            for reason in made.refused.values():
                raise ValueError(reason)
            if not made.heats:
                raise ValueError(handlers.nothing_to_save())
            text = recipe_of(made.heats).to_json()
            return json.loads(text), new_file(desk, "recipe.json", text.encode())

    for name, answer, given in (
        ("explain", explain, _maps()),
        ("recipe", recipe, [gr.JSON(label="recipe"), gr.File(label="file")]),
    ):
        offer(name, answer, _asked(), given)


def _asked() -> list[Any]:
    return [
        fields.photo(),
        fields.text("model", MODEL),
        fields.text("methods", METHODS),
        fields.text("target"),
        fields.text("against"),
        fields.choice("size", LOOKS),
        fields.whole("long_side"),
        fields.settings(),
    ]


def _maps() -> list[Any]:
    return [
        gr.JSON(label="answer"),
        gr.Gallery(label="overlays", format="png"),
        gr.File(label="maps"),
    ]


def explain_photo(
    studio: Studio,
    desk: Desk,
    photo: str | None,
    model: str | None,
    names: str | None,
    target: str | None,
    against: str | None,
    size: Any = "own",
    long_side: Any = None,
    settings: Any = None,
) -> tuple[dict[str, Any], list[tuple[str, str]], str | None]:
    """The answer of ``/explain``: top five and reasons, (overlay, caption) pairs, an NPZ file.

    There is no file where there is no map: no method was named, or all were refused.
    """
    wish = wish_of(*(studio, desk, photo, model, names, target, against, size, long_side, settings))
    made = found(studio, desk, wish)
    answer = {
        "top": [
            {"index": index, "label": label, "probability": probability}
            for index, label, probability in made.answered.trace.top(5)
        ],
        "target": made.answered.target,
        "refused": {
            name: str(reason or say("en", "unexpected")) for name, reason in made.refused.items()
        },
    }
    heats = made.heats
    pictures = [(write_png(heat.overlay(), desk.folder, heat.method), heat.title) for heat in heats]
    file = handlers.write(desk, heats, "maps.npz", npz_bytes(heats)) if heats else None
    return answer, pictures, file


def wish_of(
    studio: Studio,
    desk: Desk,
    photo: str | None,
    model: str | None,
    names: str | None,
    target: str | None,
    against: str | None,
    size: Any,
    long_side: Any,
    settings: Any,
) -> Request:
    """What is asked for, every value checked that can be before a map is made."""
    model = model_name(model)
    chosen = method_names(names)
    parameters = checked_settings(settings)
    scene = scene_of(studio, desk, photo, model)
    look = look_of(size, long_side, studio.photo(desk, str(scene.photo)))
    vit = loaded(studio, desk, model)
    parameters = checked_settings(settings, vit)
    scene = replace(aimed(scene, vit, target, against), look=look)
    return Request(scene, chosen, parameters)
