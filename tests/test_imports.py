"""The code's order, read from its source: who imports whom, and what may not be written."""

from __future__ import annotations

import ast
import re
import string
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FIRST_PARTY = {"app", "benchmarks", "explainers", "tests", "training"}
LAYERS = (
    (
        *("sentence", "version", "starting", "scalars", "registry", "image"),
        *("photo_files", "photo_icons", "photo_kinds", "photo_orientation", "photo_pixels"),
        *("attention_call", "windowed_call"),
    ),
    ("models",),
    (
        *("multi_head", "written_attention", "written_norm", "capture", "acceptance"),
        *("gradients", "step_gradients", "tensors", "trace", "tracing"),
    ),
    ("heatmap",),
    ("methods", "views", "measures"),
    (
        "separate_looks",
        "window_notes",
        "window_places",
        "forecast",
        "held",
        "pace",
        "memory_limit",
        "free_memory",
        "look",
    ),
    ("render",),
    ("__init__",),
    ("recipe", "replay", "command", "__main__"),
)
"""Parts of explainers/, lowest first: a part imports from its own layer and from lower ones."""

APP_LAYER = len(LAYERS)
UPWARD = {  # the only two steps up, inside the bodies of VisionModel.trace and HeatMap.overlay/save
    ("explainers.models.vision_model", "explainers.tracing"),
    ("explainers.heatmap", "explainers.render.overlay"),
    ("explainers.heatmap", "explainers.render.export"),
}
OPTIONAL = {"imageio-ffmpeg"}  # imported only where it is installed
PACKAGE_OF_IMPORT = {
    "PIL": "pillow",
    "cv2": "opencv-python",
    "pytorch_grad_cam": "grad-cam",
    "daam": "daam-timm-vit",
    "yaml": "pyyaml",
}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def type_checking_lines(tree: ast.Module) -> set[int]:
    """Lines that only a type checker reads: they import nothing when the program runs."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def imports(path: Path) -> list[tuple[str, bool]]:
    """(module, in the body of a function) for every import that happens when the file runs."""
    tree = tree_of(path)
    ignored = type_checking_lines(tree)
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for node in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Import, ast.ImportFrom)) or node.lineno in ignored:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{path}: {node.lineno}: relative imports hide the order"
            base = node.module or ""
            names = [
                inside if is_module(inside := f"{base}.{alias.name}") else base
                for alias in node.names
            ]
        found += [(name, id(node) in inner) for name in names]
    return found


def layer(module: str) -> int:
    """The height of a first-party module in the order of imports."""
    top, _, rest = module.partition(".")
    if top != "explainers":
        return APP_LAYER
    part = rest.partition(".")[0] or "__init__"
    for height, parts in enumerate(LAYERS):
        if part in parts:
            return height
    pytest.fail(f"{module} has no place in LAYERS, the order of imports")


@pytest.mark.parametrize("path", sources("explainers"), ids=module_of)
def test_imports_go_one_way(path: Path) -> None:
    importer = module_of(path)
    for imported, in_body in imports(path):
        if imported.partition(".")[0] not in FIRST_PARTY:
            continue
        upward = layer(imported) > layer(importer)
        allowed = in_body and (importer, imported) in UPWARD
        assert not upward or allowed, f"{importer} imports {imported}, which stands above it"


def test_the_two_steps_up_are_still_needed() -> None:
    taken = {
        (module_of(path), imported)
        for path in sources("explainers")
        for imported, in_body in imports(path)
        if in_body
    }
    assert taken >= UPWARD


def test_the_library_imports_no_other_part() -> None:
    for path in sources("explainers"):
        for imported, _ in imports(path):
            others = FIRST_PARTY - {"explainers"}
            assert imported.partition(".")[0] not in others, f"{path}: {imported}"


def test_training_needs_the_models_and_what_they_stand_on() -> None:
    for path in sources("training"):
        for imported, _ in imports(path):
            top = imported.partition(".")[0]
            if top in FIRST_PARTY - {"training"}:
                below = top == "explainers" and layer(imported) <= layer("explainers.models")
                assert below, f"{module_of(path)} imports {imported}"


def test_only_the_app_imports_gradio() -> None:
    for path in sources("explainers", "benchmarks", "training"):
        assert not {"gradio", "gradio_client"} & {
            name.partition(".")[0] for name, _ in imports(path)
        }


def test_opencv_is_imported_in_one_file() -> None:
    users = [
        module_of(path)
        for path in sources("explainers", "app", "benchmarks", "training")
        if any(name.partition(".")[0] == "cv2" for name, _ in imports(path))
    ]
    assert len(users) == 1, users


def listed(file: str) -> set[str]:
    """Names of the packages in a requirements file, as pip compares them."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    names = [re.match(r"[A-Za-z0-9][\w.-]*", line) for line in lines]
    return {re.sub(r"[-_.]+", "-", name.group()).lower() for name in names if name}


@pytest.mark.parametrize(
    ("folders", "files"),
    [
        (("explainers", "app"), ("requirements.txt",)),
        (
            ("benchmarks", "tests"),
            ("requirements.txt", "requirements-dev.txt", "requirements-peers.txt"),
        ),
        (("training",), ("requirements.txt", "requirements-training.txt")),
    ],
)
def test_everything_imported_is_listed(folders: tuple[str, ...], files: tuple[str, ...]) -> None:
    allowed = {name for file in files for name in listed(file)}
    for path in sources(*folders) + ([ROOT / "app.py"] if "app" in folders else []):
        for name, _ in imports(path):
            top = name.partition(".")[0]
            if top in FIRST_PARTY or top in sys.stdlib_module_names:
                continue
            package = PACKAGE_OF_IMPORT.get(top, top).replace("_", "-").lower()
            assert package in allowed | OPTIONAL, (
                f"{module_of(path)} imports {top}: not in {' or '.join(files)}"
            )


@pytest.mark.parametrize("path", sources("explainers", "app"), ids=module_of)
def test_no_assert_and_no_print(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        assert not isinstance(node, ast.Assert), (
            f"line {node.lineno}: raise an error people can read"
        )
        if isinstance(node, ast.Call) and path.name != "__main__.py":
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            assert called != "print", f"line {node.lineno}: use logging"


def sentences() -> list[tuple[str, str, set[str] | None, str]]:
    """(key, template, names of the values or None if unknown, place) of every Sentence.

    A table of sentences may build its keys, f"prefix_{name}": then the key ends in "*" here.
    """
    found = []
    for path in sources("explainers", "app"):
        if path.name == "sentence.py":
            continue
        for node in ast.walk(tree_of(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id != "Sentence" or len(node.args) < 2:
                continue
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            key, template = node.args[:2]
            if isinstance(key, ast.JoinedStr) and isinstance(key.values[0], ast.Constant):
                found.append((f"{key.values[0].value}*", ast.unparse(template), None, place))
                continue
            assert isinstance(key, ast.Constant), f"{place}: the key of a Sentence is a literal"
            assert isinstance(template, ast.Constant), f"{place}: its template is a literal"
            names = {keyword.arg for keyword in node.keywords}
            values = None if None in names else {name for name in names if name}
            found.append((key.value, template.value, values, place))
    return found


def test_every_sentence_key_has_one_template() -> None:
    templates = defaultdict(set)
    for key, template, _, _ in sentences():
        assert re.fullmatch(r"[a-z][a-z0-9_]*(_\*)?", key), f"{key!r} is not snake_case"
        templates[key].add(template)
    assert templates
    ambiguous = {key: found for key, found in templates.items() if len(found) > 1}
    assert not ambiguous
    for prefix in [key[:-1] for key in templates if key.endswith("*")]:
        assert not [key for key in templates if key.startswith(prefix) and key != f"{prefix}*"]


def test_every_sentence_is_given_its_values() -> None:
    for key, template, values, place in sentences():
        if values is None:
            continue
        fields = [name for _, name, _, _ in string.Formatter().parse(template) if name]
        assert {re.split(r"[.\[]", name)[0] for name in fields} == values, f"{place}: {key}"
