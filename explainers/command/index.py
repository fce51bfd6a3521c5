"""index.csv: one row a photo, written so that a killed run loses at most one."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

from explainers.command.results import writing
from explainers.command.terminal import CommandError
from explainers.measures.curves import Kind
from explainers.sentence import Sentence

TOP = 5
COLUMNS = (
    "file",
    *(f"{part}_{rank}" for rank in range(1, TOP + 1) for part in ("index", "class", "probability")),
    "true_index",
    "true_class",
    "correct",
    "target",
    "against",
    "maps",
    "notes",
    "error",
    "model",
    "fingerprint",
)
"""correct: "top-1", "top-5" (the true class is among the five, not first), "no", or "" where the
true class is not known. maps: files, from the index's folder. fingerprint: of the photo's bytes,
the model, the methods and their settings; a row without one is unfinished."""

SEPARATOR = " | "
"""Between the map files of a row."""

MEASURES: tuple[Kind, ...] = ("deletion", "insertion")
MEASURED = re.compile(rf"(?:{'|'.join(MEASURES)})_\w+")
"""Columns that a measured run adds behind the others: a method's areas, or its rivals'."""

FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""Beginnings that a spreadsheet would run as a formula; an apostrophe before them prevents it."""

QUOTED = re.compile(r'[",\r\n]')
"""What a cell is put in quotes for; Python's writer leaves a lone carriage return bare."""

Row = dict[str, str]


class Index:
    """The rows of an index.csv by file, kept on disk as they come.

    measured: columns to have besides COLUMNS and those that the file has already. A row is
    added with one write at the file's end; what a kill tore off there is dropped at the next
    reading. CommandError when the file is not an index.
    """

    def __init__(self, path: Path, measured: Sequence[str] = ()) -> None:
        self.path = path
        before, self.rows = _read(path) if path.exists() else (COLUMNS, {})
        self.columns = tuple(dict.fromkeys((*before, *measured)))
        self.save()

    def add(self, row: Row) -> None:
        """Add or replace the row of ``row["file"]``, on disk before this returns."""
        full = {column: row.get(column, "") for column in self.columns}
        self.rows[full["file"]] = full
        with open(self.path, "ab", buffering=0) as file:
            file.write(_lines([list(full.values())]))

    def save(self) -> None:
        """Write all rows in the order of their files; the old file stands until this is done."""
        rows = sorted(self.rows.values(), key=lambda row: row["file"].split("/"))
        new = self.path.with_name(f".{self.path.name}.new")
        cells = [[row.get(column, "") for column in self.columns] for row in rows]
        with writing(self.path):
            new.write_bytes(_lines([list(self.columns), *cells]))
            os.replace(new, self.path)


def _lines(rows: list[list[str]]) -> bytes:
    text = "".join(",".join(map(_cell, row)) + "\n" for row in rows)
    return text.encode("utf-8", "surrogateescape")  # names of files may be any bytes


def _cell(text: str) -> str:
    text = f"'{text}" if FORMULA.match(text) else text
    return '"{}"'.format(text.replace('"', '""')) if QUOTED.search(text) else text


def _read(path: Path) -> tuple[tuple[str, ...], dict[str, Row]]:
    """The columns and the whole rows of an index."""
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    try:
        records = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error:  # no text at all
        records = [[]]
    columns = tuple(records[0]) if records else COLUMNS
    measured = columns[len(COLUMNS) :]
    if columns != (*COLUMNS, *measured) or not all(map(MEASURED.fullmatch, measured)):
        raise CommandError(
            Sentence(
                "command_other_index",
                "{path} is not an index that this version writes; choose another --out, or "
                "move that file away.",
                path=str(path),
            )
        )
    if not text.endswith("\n"):
        records = records[:-1]
    whole = [[_raw(cell) for cell in r] for r in records[1:] if len(r) == len(columns)]
    return columns, {cells[0]: dict(zip(columns, cells, strict=True)) for cells in whole}


def _raw(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
