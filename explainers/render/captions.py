"""What stands below a figure, and the papers it owes: made from the maps' own declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explainers.heatmap import HeatMap
from explainers.registry import methods
from explainers.render.layout import Layout, letter
from explainers.render.plate import Panel, heats_of
from explainers.version import __version__

SEEN_ALL = 0.995


def caption_text(panels: Sequence[Panel], layout: Layout) -> str:
    """The caption in English: what each panel shows and means, the model, the scale, the tool.

    A method's meaning is told once, at its first panel; its settings there and where they differ.
    """
    told: dict[str, Mapping[str, Any]] = {}
    parts = []
    for index, panel in enumerate(panels):
        text, heat = panel.title, panel.what
        if isinstance(heat, HeatMap):
            if heat.target is not None:
                text += f" ({heat.target.probability:.1%})"
            if heat.method not in told:
                text += f": {heat.meaning.rstrip('.')}{_source(heat)}"
            if heat.parameters and told.get(heat.method) != heat.parameters:
                text += f"; {_settings(heat)}"
            told[heat.method] = heat.parameters
        parts.append(f"({letter(index)}) {text}." if layout.letters else f"{text}.")
    heats = heats_of(panels)
    return " ".join([*parts, *_scale(panels), *_unseen(heats), *_models(heats)])


def bibtex(heats: Sequence[HeatMap]) -> str:
    """The BibTeX entries of the methods used, each once."""
    table = methods()
    used = dict.fromkeys(name for heat in heats for name in _names(heat))
    return "\n\n".join(dict.fromkeys(table[name].bibtex for name in used if name in table))


def _names(heat: HeatMap) -> list[str]:
    """The map's method, or the methods of the maps it was made of."""
    inner = heat.provenance.get("of")
    return [made["method"] for made in inner] if isinstance(inner, list) else [heat.method]


def _settings(heat: HeatMap) -> str:
    """All settings that the map was made with, in words: "baseline black, steps 32"."""
    given = {name: value for name, value in heat.parameters.items() if value is not None}
    told = {n: f"{v:g}" if isinstance(v, float) else str(v) for n, v in given.items()}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items())


def _source(heat: HeatMap) -> str:
    declared = methods().get(heat.method)
    return "" if declared is None else f" ({declared.paper})"


def _scale(panels: Sequence[Panel]) -> list[str]:
    if not any(isinstance(panel.what, HeatMap) and panel.what.kind != "rgb" for panel in panels):
        return []
    if any(panel.options.get("limit") for panel in panels):
        return ["All maps have one colour scale."]
    return ["Each map has its own colour scale."]


def _unseen(heats: Sequence[HeatMap]) -> list[str]:
    if all(heat.geometry.seen_share >= SEEN_ALL for heat in heats):
        return []
    return ["Hatched: not seen by the model."]


def _models(heats: Sequence[HeatMap]) -> list[str]:
    """The models by name and the first digits of their weights' hash."""
    made = [one for heat in heats for one in heat.provenance.get("of", [heat.provenance])]
    names = dict.fromkeys(
        f"{one['model']} (weights {one['loaded_weights_sha256'][:8]})" for one in made
    )
    which = "Model" if len(names) == 1 else "Models"
    tool = f"Made with ViTScope {__version__}."
    return [f"{which}: {', '.join(names)}. {tool}"] if names else [tool]
