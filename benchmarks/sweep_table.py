"""The sweep's lines of JSON as a table: one row for models of a file that answer alike."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

GROUPS = {
    "attention": ("attention",),
    "a row of any block": ("attention, a row",),
    "followed to the photo": (
        *("rollout", "attention_flow", "relevance", "gradient_rollout", "legrad", "daam"),
        *("value_norm", "gradient_x_attention"),
    ),
    "CAM": (
        *("grad_cam", "grad_cam_plus_plus", "hires_cam", "layer_cam", "xgrad_cam"),
        *("eigen_cam", "score_cam"),
    ),
    "gradients": (
        *("saliency", "input_x_gradient", "integrated_gradients", "smoothgrad", "gradient_shap"),
    ),
    "hiding": ("occlusion", "rise", "vit_cx", "kernel_shap", "lime"),
    "features": ("feature_pca", "token_norm", "patch_similarity"),
}

HEAD = """# The sweep: every architecture of timm that attends

Made by `python -m benchmarks.sweep … --table docs/models_table.md`; random weights, 2 blocks (a
stage) where the constructor takes a depth, else whole up to 300 million parameters. *yes*: a finite
map of exactly the grid's shape. *no* and a number: refused beforehand, with the reason below. There
is no third outcome, or it stands under Faults. An architecture that has not been run yet is in no
row; the lines are kept in [models_swept.jsonl](models_swept.jsonl), from which a run goes on.

"""


def table(rows: list[dict[str, Any]]) -> str:
    """The document."""
    reasons: dict[str, str] = {}
    for row in rows:
        reasons |= row.get("reasons", {})
    numbers = {key: number for number, key in enumerate(reasons, 1)}
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["cells"]:
            cells = [_group(row["cells"], names, numbers) for names in GROUPS.values()]
            alike[(row["file"], *cells)].append(row)
    lines = [_line(["timm's file", "models", "for example", *GROUPS])]
    lines.append(_line(["---"] * (3 + len(GROUPS))))
    for (file, *cells), found in sorted(alike.items()):
        lines.append(_line([file, str(len(found)), f"`{found[0]['model']}`", *cells]))
    parts = [
        f"{sum(map(len, alike.values()))} architectures were run.\n",
        "\n".join(lines) + "\n",
        "## Reasons\n\n"
        + "\n".join(f"{numbers[key]}. {text}" for key, text in reasons.items())
        + "\n",
        _list("Refused as a whole", [r for r in rows if r.get("refused")], "refused"),
        _list("Not built here", [r for r in rows if r["built"] == "not built here"], "parameters"),
        _faults(rows),
    ]
    return HEAD + "\n".join(part for part in parts if part)


def _group(cells: dict[str, str], names: tuple[str, ...], numbers: dict[str, int]) -> str:
    """One cell for several methods: yes, no with its reasons, or how many of how many."""
    found = [cells[name] for name in names if name in cells]
    good = sum(cell == "map" for cell in found)
    if found and good == len(found):
        return "yes"
    refused = sorted({numbers.get(c.removeprefix("no: "), 0) for c in found if c[:3] == "no:"})
    because = " ".join(map(str, refused))
    if any(cell.startswith("FAULT") for cell in found):
        return "**fault**"
    return f"no {because}".strip() if not good else f"{good} of {len(found)}, else no {because}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _list(title: str, rows: list[dict[str, Any]], what: str) -> str:
    if not rows:
        return ""
    return f"## {title}\n\n" + "\n".join(f"- `{r['model']}`: {r[what]}" for r in rows) + "\n"


def _faults(rows: list[dict[str, Any]]) -> str:
    found = [
        f"- `{row['model']}`, {name}: {cell.removeprefix('FAULT: ')}"
        for row in rows
        for name, cell in row["cells"].items()
        if cell.startswith("FAULT")
    ]
    found += [
        f"- `{r['model']}`: tracing changed the answer"
        for r in rows
        if r.get("same answer") is False
    ]
    return "## Faults\n\n" + ("\n".join(found) if found else "None.") + "\n"
