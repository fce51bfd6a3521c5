"""Maps as numbers: NPZ files that are the same bytes whenever the maps are the same."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from explainers.heatmap import HeatMap
from explainers.sentence import Sentence

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every member: the earliest a zip file can hold, so none is given away."""


def about(heat: HeatMap) -> dict[str, Any]:
    """What the numbers mean, beside the provenance: plain values only."""
    return {
        "method": heat.method,
        "title": heat.title,
        "meaning": heat.meaning,
        "kind": heat.kind,
        "signed": heat.signed,
        "flat": heat.flat,
        "target": asdict(heat.target) if heat.target else None,
        "against": asdict(heat.against) if heat.against else None,
        "parameters": dict(heat.parameters),
        "prefix_share": heat.prefix_share,
        "figures": dict(heat.figures),
        "notes": [str(note) for note in heat.notes],
    }


def to_json(values: Mapping[str, Any]) -> str:
    """JSON with sorted keys and plain ASCII, so that equal values give equal text."""
    return json.dumps(values, sort_keys=True, ensure_ascii=True, default=_plain)


def _plain(value: Any) -> Any:
    """NumPy numbers and arrays, sets of fields and mappings as JSON knows them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON: {value!r}")


def npz_bytes(heats: HeatMap | Sequence[HeatMap]) -> bytes:
    """One or several maps as the bytes of an NPZ file, without dates.

    One map: ``values``; a list: one array a map, named by its method (``rollout``,
    ``rollout_2``, …). ``provenance`` and ``about`` are JSON texts; for a list they hold one
    entry a name.
    """
    if isinstance(heats, HeatMap):
        arrays = {"values": heats.values}
        provenance: dict[str, Any] = dict(heats.provenance)
        meaning: dict[str, Any] = about(heats)
    else:
        named = dict(zip(_names(heats), heats, strict=True))
        arrays = {name: heat.values for name, heat in named.items()}
        provenance = {name: heat.provenance for name, heat in named.items()}
        meaning = {name: about(heat) for name, heat in named.items()}
    texts = {"provenance": to_json(provenance), "about": to_json(meaning)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in {**arrays, **{k: np.array(v) for k, v in texts.items()}}.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            info.create_system = 3  # the same on every platform
            info.external_attr = 0o644 << 16
            archive.writestr(info, member.getvalue())
    return buffer.getvalue()


def _names(heats: Sequence[HeatMap]) -> list[str]:
    """A file-safe name for each map: its method, numbered from the second of a kind on."""
    names: list[str] = []
    for heat in heats:
        base = re.sub(r"[^0-9A-Za-z_]+", "_", heat.method)
        count = sum(1 for name in names if re.fullmatch(rf"{base}(_\d+)?", name))
        names.append(base if count == 0 else f"{base}_{count + 1}")
    return names


def read_npz(path: str | Path) -> dict[str, Any]:
    """The arrays of an NPZ file by name, ``provenance`` and ``about`` as dictionaries.

    ValueError when the file is no NPZ of this library.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            contents: dict[str, Any] = {name: archive[name] for name in archive.files}
        for name in ("provenance", "about"):
            contents[name] = json.loads(str(contents[name]))
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
        raise ValueError(
            Sentence(
                "npz_unreadable",
                "{name} is not a file of maps (.npz with values and provenance); "
                "choose a file that ViTScope saved.",
                name=Path(path).name,
            )
        ) from error
    return contents
