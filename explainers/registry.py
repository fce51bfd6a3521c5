"""The table of explanation methods: what each one declares about itself.

The page's controls, the command line, the documentation and the shared tests are all
made from these declarations, so a new file in ``methods/`` adds its method everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from explainers.scalars import shown
from explainers.sentence import Sentence

Question = Literal["look", "counted", "without", "sees"]
"""Where did it look / what counted for this class / what happens without it / what does it see."""

Need = Literal[
    "attention",
    "look",
    "decision",
    "chain",
    "merge",
    "class",
    "gradients",
    "readout",
    "features",
    "float32",
]
"""What a model must offer: attention rows, a row of the last block that is its look there, one
such row that leads back to the patches of the photo, blocks that all read the same tokens,
heads merged by one linear layer, class logits, gradients, a head that can be asked about any
block's tokens, the features entering and leaving a block; and float32 or finer, where the
rounding of half precision alone makes another map."""


@dataclass(frozen=True)
class Support:
    """Whether something works for a model; falsy, with the reason, when it does not."""

    ok: bool
    reason: Sentence | None = None

    def __bool__(self) -> bool:
        return self.ok


YES = Support(True)


@dataclass(frozen=True)
class Parameter:
    """One setting of a method: its default and the values it admits (checked by `explain`).

    ``kind``: "integer", "number" (both in low..high), "choice" (one of ``choices``), or
    "block" / "head" (an index into the model's blocks or heads, negative counts from the end;
    a "head" may also be one of ``choices``), or "token" (None, or a token index).
    """

    name: str
    default: Any
    kind: Literal["integer", "number", "choice", "block", "head", "token"]
    meaning: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """An explanation method's declaration; ``function`` computes it from a trace of one photo.

    ``function(trace, objective, progress, **parameters) -> Finding`` (see heatmap.py and
    methods/scoring.py); the objective is None for a method that is not class-specific,
    or whose needs leave out "class" and whose model has no head.
    ``cost(parameters, patches)`` is the number of forward passes it takes beyond the trace,
    a backward pass counted as two; the shared gradient pass counts 3 and is paid once a target.
    unit: what the values are counted in, as a figure's colour bar names it, "{setting}" standing
    for a setting's value; empty where a number says something only within its own map.
    """

    name: str
    title: str
    meaning: str
    question: Question
    class_specific: bool
    signed: bool
    needs: tuple[Need, ...]
    cost: Callable[[Mapping[str, Any], int], float]
    paper: str
    bibtex: str
    limits: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    unit: str = ""

    @property
    def needs_gradients(self) -> bool:
        return "gradients" in self.needs

    @property
    def defaults(self) -> dict[str, Any]:
        return {parameter.name: parameter.default for parameter in self.parameters}


DEFAULT_METHODS = ("attention", "rollout", "relevance", "grad_cam")
"""The methods asked for where none is named: two that follow attention and two about the
class, which share one backward pass; together no more than a moment a photo."""

_METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Add a method to the table; its name must be new."""
    if method.name in _METHODS:
        raise ValueError(f"a method named {method.name!r} is registered already")
    _METHODS[method.name] = method
    return method


def methods() -> Mapping[str, Method]:
    """All methods, name → declaration, grouped by the question they answer."""
    order = get_args(Question)
    grouped = sorted(_METHODS.values(), key=lambda m: (order.index(m.question), m.name))
    return MappingProxyType({method.name: method for method in grouped})


def find_method(name: str) -> Method:
    """The declaration of ``name``; ValueError lists the known names."""
    if not isinstance(name, str) or name not in _METHODS:
        known = ", ".join(_METHODS)
        raise ValueError(
            Sentence(
                "unknown_method",
                "There is no method {name!r}; choose one of: {known}.",
                name=name if isinstance(name, str) else shown(name),
                known=known,
            )
        )
    return _METHODS[name]
