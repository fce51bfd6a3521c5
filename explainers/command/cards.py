"""The methods' cards, from their declarations: what they say in a terminal and in Markdown."""

from __future__ import annotations

from explainers.registry import Method, Parameter, Question, methods

QUESTIONS: dict[Question, str] = {
    "look": "Where did it look?",
    "counted": "What counted for this class?",
    "without": "What happens without it?",
    "sees": "What does it see?",
}
PATCHES = 196
"""Patches that costs are given for: a 14×14 grid, that of the usual ViT."""


def traits(method: Method) -> str:
    """Class, sign and cost in one line."""
    return f"{depends(method)}; {signs(method)}; {cost(method)}"


def depends(method: Method) -> str:
    return "depends on the class" if method.class_specific else "the same for every class"


def signs(method: Method) -> str:
    return "for and against" if method.signed else "never negative"


def passes(method: Method) -> float:
    """Forward passes beyond the trace at default settings."""
    return method.cost(method.defaults, PATCHES)


def cost(method: Method) -> str:
    """What a map costs beyond the one pass that answers, at default settings."""
    count = passes(method)
    if not count:
        return "costs nothing more once the photo is traced"
    shared = ", shared by all gradient methods" if method.needs_gradients and count == 3 else ""
    noun = "pass" if f"{count:,.0f}" == "1" else "passes"
    return f"costs about {count:,.0f} forward {noun}{shared}"


def allowed(parameter: Parameter) -> str:
    """The values a setting takes."""
    listed = ", ".join(parameter.choices)
    if parameter.kind == "choice":
        return f"One of: {listed}."
    if parameter.kind == "token":
        return "A token's number, or none."
    if parameter.kind in ("block", "head"):
        return f"A {parameter.kind}'s number, from 0" + (f", or: {listed}." if listed else ".")
    whole = "A whole number" if parameter.kind == "integer" else "A number"
    return f"{whole} from {parameter.low:g} to {parameter.high:g}."


def written(value: object) -> str:
    """A setting's value as it is given on the command line."""
    return "none" if value is None else str(value)


def markdown() -> str:
    """All cards, grouped by the question the methods answer, below a table of them."""
    lines = [
        "| method | question | class? | signed? | forward passes |",
        "| --- | --- | --- | --- | ---: |",
    ]
    for method in methods().values():
        lines.append(
            f"| [`{method.name}`](#{method.name}) | {QUESTIONS[method.question]} "
            f"| {_yes(method.class_specific)} | {_yes(method.signed)} | {passes(method):,.0f} |"
        )
    for question, text in QUESTIONS.items():
        group = [method for method in methods().values() if method.question == question]
        lines += ["", f"## {text}"] if group else []
        for method in group:
            lines += _markdown_card(method)
    return "\n".join(lines) + "\n"


def _markdown_card(method: Method) -> list[str]:
    heading = depends(method).capitalize(), signs(method), cost(method)
    lines = [
        "",
        f"### {method.name}",
        "",
        f"**{method.title}.** {method.meaning}",
        "",
        "; ".join(heading) + ".",
        "",
        f"*Limits:* {method.limits}",
        "",
    ]
    if method.parameters:
        lines += ["| setting | default | values | meaning |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{parameter.name}` | {written(parameter.default)} | {allowed(parameter)} "
            f"| {parameter.meaning} |".replace("\n", " ")
            for parameter in method.parameters
        ]
        lines += [""]
    return [*lines, f"{method.paper}.", "", "```bibtex", method.bibtex, "```"]


def _yes(value: bool) -> str:
    return "yes" if value else "no"
