"""Write docs/models.md, which methods work for which models, from what each family answers:
python docs/models.py (with the packages of requirements-peers.txt)"""

import logging
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from representatives import REPRESENTATIVES, Representative
from explainers import ModelError, VisionModel, methods, wrap_model
from explainers.command.cards import QUESTIONS

SEED = 0
Row = tuple[str, list[str]]
OWN = (ROOT / "docs/own_models.md").read_text(encoding="utf-8")

HEAD = """# Which models, which methods

Made by `python docs/models.py` from what each family's model answers when it is asked; do not edit it
here. Every row stands for a family: one small model of it was built without weights, most with two
blocks, and asked for each method. ✓: there is a map. A number: the reason that is said instead, below
the table. Nothing falls back silently, and the page and `vit.supports(name)` say the same.

"""
GROUPS = """## The methods, by what they need

Methods of one group need the same of a model, so they have one column.

"""
REASONS = """
## The reasons

"""


def groups() -> dict[tuple[str, ...], list[str]]:
    """What is needed → the methods that need exactly that, in the order of the questions."""
    order = list(QUESTIONS)
    found: dict[tuple[str, ...], list[str]] = {}
    for name, method in sorted(methods().items(), key=lambda item: order.index(item[1].question)):
        found.setdefault(tuple(sorted(method.needs)), []).append(name)
    return found


def wrapped(one: Representative) -> VisionModel | str:
    """The model, ready to be asked, or the reason why its family is not read."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(action="ignore"):
        torch.manual_seed(SEED)
        try:
            return wrap_model(one.make().eval(), size=one.size)
        except ModelError as error:
            return str(error)


def row(one: Representative) -> Row:
    """(tokens that decide, "" or the reason for each group of methods)."""
    columns = groups()
    vit = wrapped(one)
    if isinstance(vit, str):
        return "not read", [vit] * len(columns)
    answers = [vit.supports(names[0]) for names in columns.values()]
    return decides(vit), ["" if answer else str(answer.reason) for answer in answers]


def decides(vit: VisionModel) -> str:
    """Which tokens feed the answer, in words."""
    prefix = vit.adapter.prefix_names
    named = {
        "token": prefix[0] if prefix else "",
        "distilled": "CLS and DIST",
        "avg": "mean of the patches",
        "all": "mean of all tokens",
        "map": "attention pool",
    }
    return named.get(vit.adapter.pooling, "no single row")


def document(rows: Iterable[Row]) -> str:
    """The whole page, from one row a representative."""
    columns = list(groups().values())
    letters = [chr(ord("A") + i) for i in range(len(columns))]
    listed = [f"- **{k}**: {', '.join(names)}" for k, names in zip(letters, columns, strict=True)]
    reasons: dict[str, int] = {}
    lines = [
        "| family | built | decides | " + " | ".join(letters) + " |",
        "| --- | --- | --- |" + " :-: |" * len(letters),
    ]
    for one, (decision, answers) in zip(REPRESENTATIVES, rows, strict=True):
        cells = [str(reasons.setdefault(a, len(reasons) + 1)) if a else "✓" for a in answers]
        lines.append("| " + " | ".join([one.family, one.built, decision, *cells]) + " |")
    said = [f"{number}. {text}" for text, number in reasons.items()]
    table = ROOT / "docs/models_table.md"
    every = "\n" + table.read_text(encoding="utf-8") if table.exists() else ""
    parts = [HEAD, GROUPS, "\n".join(listed), "\n\n## The matrix\n\n", "\n".join(lines), "\n"]
    return "".join([*parts, REASONS, "\n".join(said), "\n\n", OWN, every])


if __name__ == "__main__":
    logging.getLogger().setLevel(logging.ERROR)
    page = document([row(one) for one in REPRESENTATIVES])
    (ROOT / "docs/models.md").write_text(page, encoding="utf-8")
