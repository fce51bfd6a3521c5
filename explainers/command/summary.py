"""What a run over labelled photos shows as a whole: accuracy and the most confused classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from explainers.command.index import Row
from explainers.models.labels import short

MOST_CONFUSED = 10


@dataclass(frozen=True)
class Accuracy:
    """Photos of known class, and how many have it as the first, or among the five first."""

    photos: int
    top1: int
    top5: int


def accuracy(rows: Iterable[Row]) -> Accuracy:
    counts = Counter(row["correct"] for row in rows if row["correct"])
    return Accuracy(counts.total(), counts["top-1"], counts["top-1"] + counts["top-5"])


def confused(rows: Iterable[Row], most: int = MOST_CONFUSED) -> list[tuple[str, str, int]]:
    """(true class, predicted class, photos), the most frequent pairs first.

    Classes of the same short name are told apart by their indices.
    """
    pairs = Counter(
        (_class(row, "true"), _class(row, "predicted"))
        for row in rows
        if row["correct"] in ("top-5", "no")
    )
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:most]
    used: dict[str, set[str]] = {}
    for pair, _ in ordered:
        for index, name in pair:
            used.setdefault(name, set()).add(index)

    def shown(index: str, name: str) -> str:
        return f"{name} ({index})" if len(used[name]) > 1 else name

    return [(shown(*true), shown(*said), count) for (true, said), count in ordered]


def _class(row: Row, which: str) -> tuple[str, str]:
    if which == "true":
        return row["true_index"], short(row["true_class"])
    return row["index_1"], short(row["class_1"])


def lines(rows: Iterable[Row]) -> list[str]:
    """The accuracy and the confused pairs as lines of text; none without known classes."""
    rows = list(rows)
    known = accuracy(rows)
    if not known.photos:
        return []
    parts = [
        f"{name} {count / known.photos:.1%} ({count} of {known.photos})".replace("%", " %")
        for name, count in (("top-1", known.top1), ("top-5", known.top5))
    ]
    pairs = confused(rows)
    found = [f"Accuracy: {', '.join(parts)}"]
    if pairs:
        found += ["Most confused (true → predicted):"]
        found += [f"{count:6}  {true} → {said}" for true, said, count in pairs]
    return found
