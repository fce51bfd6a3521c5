"""What the repository promises a stranger: its commands, files, ranges, weights and examples."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from PIL import Image

if TYPE_CHECKING:
    from explainers import VisionModel

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
WEIGHTS = ROOT / "explainers/models/weights/vit_small_patch14_tiny_imagenet.safetensors"
EXAMPLES: list[dict[str, Any]] = json.loads(
    (ROOT / "app/examples/examples.json").read_text(encoding="utf-8")
)
BINARY = {".avif", ".gif", ".heic", ".jpg", ".npz", ".pdf", ".png", ".safetensors", ".webp"}


def repository_files() -> list[Path]:
    """The files under version control, or, in a copy without history, all that are not hidden."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode == 0 and listing.stdout:
        return [path for name in listing.stdout.split("\0") if (path := ROOT / name).is_file()]
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not re.search(r"/[._][^/]*/", f"/{path.relative_to(ROOT)}")
    ]


def commands(ending: str) -> list[str]:
    """README's indented command lines that end so."""
    return re.findall(rf"^ {{4}}(.*{re.escape(ending)})$", README, re.MULTILINE)


def requirements(file: str) -> list[Requirement]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and line[0] not in "#-"]


def front_matter() -> dict[str, str]:
    """The `key: value` lines at README's head, which a Space is configured by."""
    head = README.split("---\n")[1]
    return dict(re.findall(r"^(\w+): *\"?([^\"\n]*)\"?$", head, re.MULTILINE))


def test_one_command_runs_and_one_tests() -> None:
    (run,) = commands("python app.py")
    (test,) = commands("-m pytest")
    start = "python3 -m venv .venv && .venv/bin/pip install -r "
    assert run == f"{start}requirements.txt && .venv/bin/python app.py"
    assert test == f"{start}requirements-dev.txt && .venv/bin/python -m pytest"
    first_screen = "\n".join(README.split("---\n")[2].splitlines()[:30])
    assert run in first_screen
    assert test in first_screen


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = ROOT / ".ci/run"
    text = script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert "set -euo pipefail" in text
    found = re.search(r"^test_command=\$\((grep .*) README\.md\)$", text, re.MULTILINE)
    assert found
    answer = subprocess.check_output(
        ["bash", "-c", f"{found.group(1)} README.md"], cwd=ROOT, text=True
    )
    assert [answer.strip()] == commands("-m pytest")


def test_tested_versions_lie_in_the_ranges() -> None:
    for requirement in requirements("requirements.txt") + requirements("requirements-dev.txt"):
        bounds = {bound.operator for bound in requirement.specifier}
        assert bounds == {">=", "<"}, f"{requirement.name} needs a lower and an upper bound"
        installed = version(requirement.name)
        assert requirement.specifier.contains(installed, prereleases=True), (
            f"{requirement.name} {installed} is outside {requirement.specifier}"
        )


def test_the_space_is_described() -> None:
    space = front_matter()
    assert space["sdk"] == "gradio"
    assert space["license"] == "apache-2.0"
    assert (ROOT / space["app_file"]).is_file()
    (gradio,) = (r for r in requirements("requirements.txt") if r.name == "gradio")
    assert gradio.specifier.contains(space["sdk_version"])
    assert "preload_from_hub:\n  - timm/vit_base_patch16_224.augreg2_in21k_ft_in1k " in README
    assert len(space["short_description"]) <= 60  # the Hub refuses more


def test_the_weights_are_those_of_the_card() -> None:
    digest = hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()
    assert digest.startswith("56fc15ae8b115210")
    assert digest[:16] in WEIGHTS.with_name("README.md").read_text(encoding="utf-8")


def test_no_file_names_a_place_on_one_machine() -> None:
    # Written in two parts, so that this file does not find itself.
    places = ["/wo" + "rk/", "/ro" + "ot/", "/usr/" + "local", "/op" + "t/"]
    for path in repository_files():
        if path.suffix in BINARY:
            continue
        text = path.read_text(encoding="utf-8")
        found = [place for place in places if re.search(rf"(?<![\w.]){re.escape(place)}", text)]
        assert not found, f"{path.relative_to(ROOT)} contains {found}"


@pytest.mark.parametrize(
    "page", [p for p in repository_files() if p.suffix == ".md"], ids=lambda p: p.name
)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_six_examples_with_titles_and_credits() -> None:
    assert len(EXAMPLES) == 6
    assert sum(example["expected"] is None for example in EXAMPLES) == 1
    credits = (ROOT / "docs/credits.md").read_text(encoding="utf-8")
    for example in EXAMPLES:
        assert set(example["title"]) == {"en", "zh"}
        assert f"`{example['file']}`" in credits
        author = re.split(r"[,;]", example["credit"].removeprefix("from the "))[0]
        assert author.removesuffix(" package") in credits
        with Image.open(ROOT / "app/examples" / example["file"]) as photo:
            assert max(photo.size) <= 800


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["file"])
def test_the_embedded_model_names_the_examples(
    example: dict[str, Any], embedded: VisionModel
) -> None:
    from explainers import load_photo

    assert embedded.labels
    known = {label.split(",")[0] for label in embedded.labels}
    trace = embedded.trace(load_photo(ROOT / "app/examples" / example["file"]))
    _, label, probability = trace.top(1)[0]
    if example["expected"] is None:
        assert not known & {"rocket", "space shuttle", "spacecraft"}
        assert probability < 0.5
    else:
        assert example["expected"] in known
        assert label.split(",")[0] == example["expected"]
        assert probability > 0.8


def test_the_command_lines_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    from explainers.command.arguments import parse

    monkeypatch.chdir(ROOT)
    lines = re.findall(r"^ {4}\.venv/bin/python -m explainers (.+)$", README, re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        parse(shlex.split(line))


def python_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def in_a_copy(folder: Path, arguments: list[str]) -> str:
    """What Python prints, run in a new folder that has only the example photos."""
    (folder / "app").mkdir()
    (folder / "app/examples").symlink_to(ROOT / "app/examples")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example_runs_as_pasted(tmp_path: Path) -> None:
    (block,) = python_blocks()
    printed = in_a_copy(tmp_path, ["-c", block])
    assert "lion" in printed
    for name in re.findall(r"\.save\(\"(.+?)\"\)", block):
        assert (tmp_path / name).stat().st_size > 0
