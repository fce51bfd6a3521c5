"""Do maps survive bfloat16 and float16? Spearman's correlation with the float32 map of each method.

python -m benchmarks.precision FOLDER      ten photos of FOLDER, methods that hide nothing
… --methods saliency,rollout --photos 3 --model NAME --device cuda
… --fewer      the methods of many passes with fewer of them (`FEWER`), in a tenth of the time

Every map explains the class that the float32 model answers. Perturbation methods are left out:
their random draws meet other probabilities, and each answer is a plain forward pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from explainers import ModelError, explain, load_model, load_photo, methods
from explainers.methods.ranks import spearman
from explainers.models.devices import PRECISIONS

LEAST = 0.99
"""What each map must reach."""

FEWER: dict[str, dict[str, int]] = {
    "integrated_gradients": {"steps": 8},
    "smoothgrad": {"samples": 4},
    "gradient_shap": {"samples": 4},
    "score_cam": {"channels": 16},
}

HALVES = tuple(name for name in PRECISIONS if name != "float32")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")


def names(chosen: str | None) -> list[str]:
    """The methods asked for, or all that hide nothing and are not refused in half precision."""
    if chosen:
        return chosen.split(",")
    return [
        name
        for name, method in methods().items()
        if method.question != "without" and "float32" not in method.needs
    ]


def correlations(
    photos: Sequence[Path], chosen: Sequence[str], model: str, device: str, fewer: bool = False
) -> dict[tuple[str, str], list[float]]:
    """(method, precision) → Spearman's correlation with float32 on each photo; NaN if refused."""
    models = {name: load_model(model, dtype=name, device=device) for name in PRECISIONS}
    found: dict[tuple[str, str], list[float]] = {(m, p): [] for m in chosen for p in HALVES}
    for path in tqdm(photos, unit="photo"):
        photo = load_photo(path)
        traces = {name: vit.trace(photo) for name, vit in models.items()}
        target = traces["float32"].top(1)[0][0]
        for method in chosen:
            maps = {}
            for name, trace in traces.items():
                aim: dict[str, Any] = {"target": target} if methods()[method].class_specific else {}
                aim |= FEWER.get(method, {}) if fewer else {}
                try:
                    maps[name] = explain(method, trace, **aim).values
                except ModelError as error:
                    print(f"{path.name} {method} {name}: {error}")
                    maps[name] = np.full((1, 1), np.nan)
            for name in HALVES:
                alike = maps[name].shape == maps["float32"].shape
                value = spearman(maps[name], maps["float32"]) if alike else float("nan")
                found[method, name].append(value)
    return found


def table(found: dict[tuple[str, str], list[float]]) -> str:
    """Markdown: each method's lowest and middle value in each precision."""
    lines = [
        "| method | " + " | ".join(f"{name}: lowest | middle" for name in HALVES) + " |",
        "| --- |" + " --- | --- |" * len(HALVES),
    ]
    for method in dict.fromkeys(method for method, _ in found):
        cells = [method]
        for name in HALVES:
            values = found[method, name]
            low = min(values) if not np.isnan(values).any() else float("nan")
            cells.append(f"{low:.4f}" + ("" if low >= LEAST else " ✗"))
            cells.append(f"{np.median(values):.4f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=10)
    parser.add_argument("--methods", default=None, help="names, separated by commas")
    parser.add_argument("--fewer", action="store_true", help="fewer passes, where there are many")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    files = sorted(p for p in arguments.folder.iterdir() if p.suffix.lower() in SUFFIXES)
    photos = files[: arguments.photos]
    chosen, fewer = names(arguments.methods), arguments.fewer
    found = correlations(photos, chosen, arguments.model, arguments.device, fewer)
    print(
        f"{len(photos)} photos, {arguments.model} on {arguments.device}, torch {torch.__version__}"
    )
    print(table(found))


if __name__ == "__main__":
    main()
