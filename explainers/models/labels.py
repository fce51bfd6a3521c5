"""Names of classes: reading them from a file, finding one, and the tables of ImageNet."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from pathlib import Path
from typing import Any

from explainers.models.errors import ModelError
from explainers.scalars import shown, whole_number
from explainers.sentence import Sentence

Labels = str | Path | Mapping[str, str] | Sequence[str]
"""Names of classes, or the file that lists them."""

LISTED = 8  # hits that a refusal names
BACKGROUND = "background"
IMAGENET_1K = 1000
LONGEST_INDEX = 18  # digits; Python reads no number of more than 4,300


def short(label: str) -> str:
    """The first of a label's names: "tabby, tabby cat" → "tabby"."""
    return label.split(",")[0].strip()


def labels_unknown(classes: int) -> Sentence:
    """What is said of classes that have no names."""
    return Sentence(
        "labels_unknown",
        "The names of this model's {classes} classes are not known; they are shown by index. A "
        "label file names them.",
        classes=classes,
    )


def find_class(labels: Sequence[str] | None, classes: int, text: int | str) -> int:
    """The index of the class that ``text`` names.

    An index (a number, also written as text); else, whatever the case: a whole label, one of
    its comma parts, or a piece of it, the first of these that hits anything. Raises
    ValueError for none or several hits (and lists them) and for an index out of range,
    TypeError for what is neither a whole number nor a text.
    """
    if not isinstance(text, str):
        index = whole_number(text)
        if index is None:
            raise TypeError(
                Sentence(
                    "class_type",
                    "A class is named by its index or its label, and {value} ({kind}) came; give "
                    "a whole number or a text.",
                    value=shown(text),
                    kind=type(text).__name__,
                )
            )
        return _in_range(index, classes)
    wanted = text.strip().casefold()
    names = [label.casefold() for label in labels or ()]
    parts = [[part.strip() for part in name.split(",")] for name in names]
    for hits in (
        [i for i, name in enumerate(names) if name == wanted],
        [i for i, part in enumerate(parts) if wanted in part],
    ):
        if hits:
            return _only(hits, labels, text)
    if wanted.isdecimal():
        return _in_range(int(wanted) if len(wanted) <= LONGEST_INDEX else wanted, classes)
    hits = [i for i, name in enumerate(names) if wanted and wanted in name]
    if hits:
        return _only(hits, labels, text)
    if labels is None:
        raise ValueError(
            Sentence(
                "class_no_labels",
                "This model's classes have no names here; give an index from 0 to {last} "
                "instead of {text!r}.",
                last=classes - 1,
                text=shown(text),
            )
        )
    every = sorted({part for group in parts for part in group})
    near = ", ".join(difflib.get_close_matches(wanted, every, n=3))
    if not near:
        raise ValueError(
            Sentence(
                "class_unlike",
                "No class is called {text!r}, and no name comes near; give a part of a label, or "
                "an index from 0 to {last}.",
                text=shown(text),
                last=classes - 1,
            )
        )
    raise ValueError(
        Sentence(
            "class_unknown",
            "No class is called {text!r}; nearest names: {near}. An index from 0 to {last} "
            "works too.",
            text=shown(text),
            near=near,
            last=classes - 1,
        )
    )


def _in_range(index: int | str, classes: int) -> int:
    """``index``, where it is one of a class; a text stands for a number too long to be read."""
    if isinstance(index, int) and 0 <= index < classes:
        return index
    raise ValueError(
        Sentence(
            "class_range",
            "A class index must be from 0 to {last}; got {index}.",
            last=classes - 1,
            index=shown(index),
        )
    )


def _only(hits: Sequence[int], labels: Sequence[str] | None, text: str) -> int:
    if len(hits) == 1:
        return hits[0]
    listed = "; ".join(f"{i} {labels[i] if labels else ''}" for i in hits[:LISTED])
    raise ValueError(
        Sentence(
            "class_ambiguous",
            "{text!r} fits {count} classes: {listed}. Give the full label or the index.",
            text=shown(text),
            count=len(hits),
            listed=listed + ("; …" if len(hits) > LISTED else ""),
        )
    )


def read_labels(path: str | Path) -> tuple[str, ...]:
    """Labels from a .txt (a line each) or a .json file (a list, or {index: name}).

    Raises ModelError for another kind of file, a gap, or anything that is not text.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = json.loads(text) if path.suffix.lower() == ".json" else text.rstrip().split("\n")
    except OSError as error:
        raise _unreadable(path, error.strerror or type(error).__name__) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, brackets without end
        raise _unreadable(path, str(error)) from error
    return as_labels(found, path.name)


def given_labels(labels: Labels) -> tuple[str, ...]:
    """Labels as a caller gives them: names in the order of their classes, or a file of them."""
    if isinstance(labels, (str, os.PathLike)):
        return read_labels(labels)
    ordered = isinstance(labels, Iterable) and not isinstance(labels, (Mapping, Set))
    return as_labels(list(labels) if ordered else labels, "labels")


def as_labels(found: Any, source: str) -> tuple[str, ...]:
    """A list, or {index: name} with all indices from 0, as labels; ``source`` for the error."""
    if isinstance(found, Mapping):
        found = [found.get(str(i), found.get(i)) for i in range(len(found))]
    if isinstance(found, Sequence) and not isinstance(found, str):
        wrong = [i for i, name in enumerate(found) if not (isinstance(name, str) and name.strip())]
        if found and not wrong:
            return tuple(name.strip() for name in found)
        where = f"class {wrong[0]}" if wrong else "any class"
    else:
        where = "any class"
    raise ModelError(
        Sentence(
            "labels_gap",
            "{source} has no name for {where}; expected one line a class, a JSON list of names, "
            'or JSON {{"0": "name", …}} without gaps.',
            source=source,
            where=where,
        )
    )


def _unreadable(path: Path, reason: str) -> ModelError:
    return ModelError(
        Sentence(
            "labels_unreadable",
            "The label file {name} cannot be read ({reason}); expected UTF-8 text or JSON.",
            name=path.name,
            reason=reason,
        )
    )


@lru_cache(maxsize=4)
def imagenet_labels(classes: int) -> tuple[str, ...] | None:
    """The names of the ImageNet table with that many classes; None when there is no such table.

    1,001 classes are ImageNet-1k behind a background class, as TensorFlow's models have it.
    The 21,841, 21,842 and 21,843 classes in use are three different tables.
    """
    from timm.data import ImageNetInfo, infer_imagenet_subset

    if classes == IMAGENET_1K + 1:
        return (BACKGROUND, *(imagenet_labels(IMAGENET_1K) or ()))
    subset = infer_imagenet_subset({"num_classes": classes})
    if subset is None:
        return None
    names = tuple(ImageNetInfo(subset).label_descriptions())
    return names if len(names) == classes else None
