"""docs/models.md: the matrix is what the families answer now, and its example runs as it stands."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from safetensors.torch import save_file

from tests.own_modules import OwnViT
from tests.own_weights import COLOURS, coloured
from tests.tiny import seeded, shake


@pytest.fixture(scope="module")
def maker(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "docs/models.py"))


@pytest.fixture(scope="module")
def written(root: Path) -> str:
    return (root / "docs/models.md").read_text(encoding="utf-8")


def written_rows(text: str, count: int) -> list[tuple[str, list[str]]]:
    """The rows of the matrix as it stands, their numbers as the reasons they stand for."""
    table, rest = text.split("## The matrix")[1].split("## The reasons")
    said = rest.split("\n## ")[0]  # the table of all architectures has numbered reasons of its own
    reasons = dict(re.findall(r"^(\d+)\. (.*)$", said, re.MULTILINE))
    lines = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    assert len(lines) == count
    return [(line[2], ["" if c == "✓" else reasons[c] for c in line[3:]]) for line in lines]


@pytest.mark.filterwarnings("ignore")  # torch's own, about TorchScript's age and quantisation
def test_the_page_on_models_is_current(maker: dict[str, Any], written: str) -> None:
    """Families of a library that is not installed stand as they were written."""
    representatives = maker["REPRESENTATIVES"]
    rows = written_rows(written, len(representatives))
    for place, one in enumerate(representatives):
        try:
            rows[place] = maker["row"](one)
        except ImportError:
            continue
    assert maker["document"](rows) == written, "run: python docs/models.py"


def test_every_method_has_a_column(maker: dict[str, Any], written: str) -> None:
    from explainers import methods

    listed = re.findall(r"^- \*\*[A-Z]\*\*: (.*)$", written, re.MULTILINE)
    assert sorted(name for line in listed for name in line.split(", ")) == sorted(methods())
    assert [line.split(", ") for line in listed] == list(maker["groups"]().values())


def test_the_example_of_an_own_module_runs_as_it_stands(
    tmp_path: Path, root: Path, written: str
) -> None:
    example = written.split("```python\n")[1].split("```")[0]
    assert len([line for line in example.splitlines() if line and "import" not in line]) <= 10
    with seeded(1):
        model = shake(OwnViT(size=(64, 64)))
    save_file(model.state_dict(), tmp_path / "mine.safetensors")
    (tmp_path / "labels.txt").write_text("\n".join(COLOURS), encoding="utf-8")
    Image.fromarray(coloured("plum", side=80)).save(tmp_path / "photo.png")
    (tmp_path / "my_project.py").write_text(
        "from tests.own_modules import OwnViT\n\n\n"
        "def MyViT(classes):\n    return OwnViT(size=(64, 64))\n"
    )
    (tmp_path / "example.py").write_text(example)
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("True")
    assert Image.open(tmp_path / "relevance.png").size[0] > 0
