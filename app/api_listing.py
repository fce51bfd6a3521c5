"""``/models``, ``/methods`` and ``/cost``: what there is to choose from, and what it costs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import gradio as gr

from app import api_fields as fields
from app.api_asked import model_name
from app.api_call import calling, loaded
from app.api_fields import MODEL
from app.api_offer import offer
from app.studio import Studio
from explainers import VisionModel, registry
from explainers.models.catalogue import CATALOGUE
from explainers.views import cost as costs


def add(studio: Studio) -> None:
    """Add the three."""

    def list_models() -> list[dict[str, Any]]:
        """The models of this page's list, and those that are loaded: any other name of timm works
        too, where its weights are on this machine.

        Returns:
            models: name, description, megabytes, weights (embedded, cached, download), loaded, …
        """
        return models_of(studio)

    def list_methods() -> list[dict[str, Any]]:
        """The explanation methods of this page: what each one is called and means.

        Returns:
            methods: name, title, meaning, class_specific, signed, limits, paper, settings
        """
        return methods_of()

    def cost(
        request: gr.Request,
        model: str | None,
        height: Any = None,
        width: Any = None,
        patch: Any = None,
    ) -> dict[str, Any]:
        """What a photo costs a model: tokens, operations, and bytes in float32, from its shape.

        Args:
            model: a model that is on this machine; /models lists them
            height: pixels; null for the model's own
            width: pixels; null for the model's own
            patch: pixels of a patch's side; null for the model's own

        Returns:
            cost: photo and shape that it is of, and cost: patches, tokens, operations, bytes
        """
        with calling(studio, request) as desk:
            vit = loaded(studio, desk, model_name(model))
            return cost_of(vit, height, width, patch)

    sizes = [fields.whole("height"), fields.whole("width"), fields.whole("patch")]
    offer("models", list_models, [], [gr.JSON(label="models")])
    offer("methods", list_methods, [], [gr.JSON(label="methods")])
    offer("cost", cost, [fields.text("model", MODEL), *sizes], [gr.JSON(label="cost")])


def models_of(studio: Studio) -> list[dict[str, Any]]:
    """One entry a model; what can only be told of a loaded one is null of the others."""
    entries: dict[str, dict[str, Any]] = {
        entry.name: {
            "name": entry.name,
            "description": str(entry.description),
            "megabytes": entry.megabytes,
            "weights": entry.state(),
        }
        for entry in CATALOGUE
    }
    own = {"description": None, "megabytes": None, "weights": "loaded"}
    for name in dict.fromkeys([studio.default_model, *studio.models.names()]):
        entries.setdefault(name, {"name": name, **own})
    return [entry | _facts(studio.models.ready(name)) for name, entry in entries.items()]


def _facts(vit: VisionModel | None) -> dict[str, Any]:
    if vit is None:
        return {"loaded": False, "classes": None, "size": None, "blocks": None, "heads": None}
    return {
        "loaded": True,
        "classes": vit.classes,
        "size": list(vit.preprocessing.size),
        "blocks": vit.adapter.depth,
        "heads": vit.adapter.heads,
    }


def methods_of() -> list[dict[str, Any]]:
    """One entry a method, as it declares itself."""
    return [
        {
            "name": method.name,
            "title": method.title,
            "meaning": method.meaning,
            "class_specific": method.class_specific,
            "signed": method.signed,
            "limits": method.limits,
            "paper": method.paper,
            "settings": [asdict(parameter) for parameter in method.parameters],
        }
        for method in registry.methods().values()
    ]


def cost_of(vit: VisionModel, height: Any, width: Any, patch: Any) -> dict[str, Any]:
    """The cost of a photo of such a size; ValueError for sizes that there are not."""
    shape, (high, wide) = costs.shape_of(vit), vit.preprocessing.size
    height, width = (own if side is None else side for side, own in ((height, high), (width, wide)))
    shape = shape if patch is None else costs.with_patch(shape, patch)
    cost = costs.cost(shape, height, width)
    return {
        "model": vit.name,
        "photo": [height, width],
        "shape": asdict(shape),
        "cost": {**asdict(cost), "operations": cost.operations},
    }
