"""What one photo's pass costs and how it costs less, in words and tables."""

from __future__ import annotations

from html import escape

from app.anatomy_pieces import bars, percent
from app.texts import say
from explainers.views.cost import Cost, Shape, cost, with_patch

WINDOW = 7
"""Patches a side of a window, as in Swin."""


def figures(lang: str, shape: Shape, found: Cost, height: int, width: int) -> str:
    """The numbers of one photo's pass."""
    first = say(
        lang,
        "cost_patches",
        height=height,
        width=width,
        patch=shape.patch,
        rows=height // shape.patch,
        columns=width // shape.patch,
        patches=f"{found.patches:,}",
        prefix=shape.prefix,
        tokens=f"{found.tokens:,}",
        numbers=shape.width,
    )
    parts = [
        (say(lang, f"cost_part_{part}"), float(getattr(found, part)))
        for part in ("embedding", "projections", "attention", "mlp", "head")
    ]
    rows = [
        (name, value, f"{billions(value)} <small>{percent(value / found.operations)}</small>")
        for name, value in parts
    ]
    memory = [
        (say(lang, "cost_stream"), found.stream),
        (say(lang, "cost_matrices", heads=shape.heads), found.matrices),
        (say(lang, "cost_training"), found.training),
        (say(lang, "cost_checkpointed"), found.checkpointed),
    ]
    lines = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td>{size(value)}</td></tr>"
        for name, value in memory
    )
    total = say(lang, "cost_operations", operations=billions(found.operations))
    return (
        f"<p><b>{escape(first)}</b></p><p>{escape(total)}</p>{bars(rows)}"
        f"<p>{escape(say(lang, 'cost_memory'))}</p><table class='vs-lens'>{lines}</table>"
    )


def advice(lang: str, shape: Shape, found: Cost, height: int, width: int) -> str:
    """What helps when memory runs out, with what it would save here."""
    lines = [say(lang, "cost_amp", before=size(found.training), after=size(found.training / 2))]
    lines.append(
        say(
            lang,
            "cost_checkpointing",
            before=size(found.training),
            after=size(found.checkpointed),
        )
    )
    if min(height, width) >= 2 * shape.patch:
        coarse = cost(with_patch(shape, 2 * shape.patch), height, width)
        small = cost(shape, height // 2, width // 2)
        lines.insert(
            0, say(lang, "cost_larger_patch", **_against(found, coarse), patch=shape.patch * 2)
        )
        lines.insert(
            1,
            say(
                lang, "cost_smaller", **_against(found, small), height=height // 2, width=width // 2
            ),
        )
    if found.patches > WINDOW**2:
        windows = 4 * shape.heads * found.patches * WINDOW**2
        lines.insert(
            len(lines) - 2,
            say(
                lang,
                "cost_windows",
                window=WINDOW,
                before=size(found.matrices),
                after=size(windows),
            ),
        )
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<p><b>{escape(say(lang, 'cost_advice'))}</b></p><ul class='vs-figures'>{items}</ul>"


def _against(found: Cost, other: Cost) -> dict[str, object]:
    return {
        "before": f"{found.tokens:,}",
        "after": f"{other.tokens:,}",
        "times": f"{found.attention / max(1, other.attention):.0f}",
    }


def billions(operations: float) -> str:
    """Operations with a unit: 9.17 G."""
    for unit, power in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if operations >= power:
            return f"{operations / power:.3g} {unit}"
    return f"{operations:.0f}"


def size(count: float) -> str:
    """Bytes with a unit: 56.2 MiB."""
    for unit, power in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= power:
            value = count / power
            return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
    return f"{count:.0f} B"
