"""The methods' own settings: one control for each declared parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from app.fields import Menu, Number, Slider
from app.texts import texts
from explainers.methods.baselines import BASELINES
from explainers.models.vision_model import VisionModel
from explainers.registry import Method, Parameter

Place = tuple[str, str]
"""A method's name and its parameter's name."""

SLIDER_MOST = 10_000
"""A setting that reaches higher is typed: a slider could not hit its values."""


PICKED = {"patch_similarity": "patch"}
"""Method → its setting that is a token, chosen by a click on the map."""


def baseline_of(method: Method) -> str | None:
    """The setting that chooses "a picture of nothing" for this method, if it has one."""
    return next((p.name for p in method.parameters if _of_baselines(p)), None)


def places(methods: Mapping[str, Method]) -> list[Place]:
    """All settings in the order of their controls."""
    return [(m.name, parameter.name) for m in methods.values() for parameter in m.parameters]


def control(t: gr.I18n, method: Method, parameter: Parameter) -> gr.components.Component:
    """The control of one parameter; `refresh` fits it to a model later."""
    label = t(f"parameter.{method.name}.{parameter.name}")
    common: dict[str, Any] = {"label": label, "min_width": 200}
    if parameter.kind == "choice":
        choices = [(_choice_name(t, parameter, choice), choice) for choice in parameter.choices]
        return gr.Dropdown(choices, value=parameter.default, **common)
    if parameter.kind == "head":
        return Menu(_heads(t, parameter, 12), value=_head(parameter.default), **common)
    if parameter.kind == "block":
        return Slider(0, 11, value=_block(parameter.default, 12), step=1, **common)
    if parameter.kind == "token":
        info = t("token_info")
        return Number(value=parameter.default, precision=0, minimum=0, info=info, **common)
    whole = parameter.kind == "integer"
    if parameter.low is None or parameter.high is None or parameter.high > SLIDER_MOST:
        return Number(
            value=parameter.default,
            precision=0 if whole else None,
            minimum=parameter.low,
            maximum=parameter.high,
            **common,
        )
    step = 1 if whole else (parameter.high - parameter.low) / 100
    return Slider(parameter.low, parameter.high, value=parameter.default, step=step, **common)


def refresh(t: gr.I18n, methods: Mapping[str, Method], vit: VisionModel) -> list[Any]:
    """Updates that set every control back to its default, within what ``vit`` has."""
    depth, heads = vit.adapter.depth, vit.adapter.heads
    updates: list[Any] = []
    for name, parameter_name in places(methods):
        parameter = _find(methods, name, parameter_name)
        if parameter.kind == "block":
            value = _block(parameter.default, depth)
            updates.append(gr.update(maximum=depth - 1, value=value))
        elif parameter.kind == "head":
            choices = _heads(t, parameter, heads)
            updates.append(gr.update(choices=choices, value=_head(parameter.default)))
        else:
            updates.append(gr.update(value=parameter.default))
    return updates


def read(methods: Mapping[str, Method], values: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """The controls' values as parameters: method → name → value as `explain` takes it."""
    found: dict[str, dict[str, Any]] = {}
    for (name, parameter_name), value in zip(places(methods), values, strict=True):
        parameter = _find(methods, name, parameter_name)
        found.setdefault(name, {})[parameter_name] = _value(parameter, value)
    return found


def _value(parameter: Parameter, value: Any) -> Any:
    """A control's value in the parameter's own type; an empty control means the default."""
    if value is None or value == "":
        return parameter.default
    if parameter.kind in ("integer", "block", "token"):
        return int(value)
    if parameter.kind == "number":
        return float(value)
    if parameter.kind == "head":
        text = str(value)
        return int(text) if text.isdecimal() else text
    return value


def _find(methods: Mapping[str, Method], name: str, parameter: str) -> Parameter:
    return next(p for p in methods[name].parameters if p.name == parameter)


def _block(default: int, depth: int) -> int:
    return min(max(default + depth if default < 0 else default, 0), depth - 1)


def _head(default: Any) -> str:
    return str(default)


def _heads(t: gr.I18n, parameter: Parameter, count: int) -> list[tuple[Any, str]]:
    named = [(_choice_name(t, parameter, choice), choice) for choice in parameter.choices]
    return [*named, *((str(head), str(head)) for head in range(count))]


def _of_baselines(parameter: Parameter) -> bool:
    """Whether a setting chooses among the pictures of nothing (maybe among other things)."""
    return set(BASELINES) <= set(parameter.choices)


def _choice_name(t: gr.I18n, parameter: Parameter, choice: str) -> Any:
    """The translated name of a choice, or the choice itself where no text names it."""
    key = f"{'baseline' if _of_baselines(parameter) else 'choice'}_{choice}"
    return t(key) if key in texts("en")["page"] else choice
