"""docs/notebook.ipynb: it runs from end to end, and is kept without output."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient


def test_the_notebook_runs_and_shows_its_maps(root: Path) -> None:
    notebook = nbformat.read(root / "docs" / "notebook.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": root / "docs"}}).execute()
    kinds = [kind for cell in code for out in cell.outputs for kind in out.get("data", {})]
    assert kinds.count("image/png") == 3
    assert kinds.count("text/html") == 2
