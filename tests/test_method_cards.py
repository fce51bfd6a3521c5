"""The page on methods is current, and the table of their measures is made from a file."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measures_table import Results, interval, table
from explainers import methods
from explainers.command.cards import markdown

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_on_methods_is_current() -> None:
    made = runpy.run_path(str(ROOT / "docs/methods.py"))["document"]()
    written = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    assert made == written, "run: python docs/methods.py"


def test_cards_hold_all_that_methods_declare() -> None:
    text = markdown()
    for name, method in methods().items():
        card = text.split(f"\n### {name}\n")[1].split("\n### ")[0]
        for part in (method.title, method.meaning, method.limits, method.paper, method.bibtex):
            assert part in card
        for parameter in method.parameters:
            assert f"| `{parameter.name}` |" in card
            assert parameter.meaning in card
        assert f"(#{name})" in text


def test_bootstrap_interval() -> None:
    values = np.random.default_rng(0).normal(0.3, 0.1, 100)
    mean, low, high = interval(values)
    assert mean == pytest.approx(values.mean())
    half = 1.96 * values.std() / 10
    assert low == pytest.approx(mean - half, abs=0.004)
    assert high == pytest.approx(mean + half, abs=0.004)
    assert interval(values) == (mean, low, high)


def test_the_table_is_made_from_a_file_that_can_be_gone_on_from(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    draw = np.random.default_rng(0)
    for photo in "abcdef":
        noise = float(draw.normal(0, 0.01))
        for name, gain in (("random", 0.0), ("centre", 0.02), ("rollout", 0.1), ("lime", 0.2)):
            if name != "lime" or photo < "f":
                areas = {"deletion": 0.5 + noise - gain, "insertion": 0.4 + noise + gain}
                results.add(name, photo, areas)
    again = Results(tmp_path / "results.jsonl")
    assert json.dumps(again.areas) == json.dumps(results.areas)
    again.add("rise", "a", {"deletion": 0.0, "insertion": 1.0})  # one photo says nothing
    again.add_sanity("rollout", {"photos": 3, "other_class": 1.0, "weights": 0.12})
    again = Results(tmp_path / "results.jsonl")
    text = table(again, {"lime": {"samples": 99}, "rise": {"masks": 5}})
    lines = [line for line in text.splitlines() if line.startswith("| [") or line.startswith("| *")]
    assert [line.split("|")[1].strip() for line in lines] == [
        "[`lime`](#lime)",
        "[`rollout`](#rollout)",
        "*centre first*",
        "*random order*",
    ]
    assert [line.split("|")[2].strip() for line in lines] == ["5", "6", "6", "6"]
    # The noise of a photo is the same for all, so gains have none.
    assert "+0.100 [+0.100, +0.100] / +0.100 [+0.100, +0.100]" in lines[1]
    assert lines[1].endswith("| 1.00 | 0.12 |")
    assert lines[0].endswith("| – | – |")
    assert lines[3].split("|")[5:7] == [" – ", " – "]
    assert (
        "Best at deletion: `lime`, by +0.200 [+0.200, +0.200] over random order, +0.180 [+0.180, "
        "+0.180] over centre first, +0.100 [+0.100, +0.100] over the next, `rollout`." in text
    )
    assert "`lime` (samples = 99)" in text
    few = next(line for line in text.splitlines() if "fewer than 5 photos" in line)
    assert "`rise`" in few
    assert "`rollout`" not in few
    assert "#rise" not in text
