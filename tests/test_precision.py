"""Half precision: the same maps, always finite; devices and precisions that are not there.

The measured table on ten photos: ``python -m benchmarks.precision FOLDER``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from app.loader import resolve
from app.options import parse as parse_page
from explainers import explain, load_model, load_photo, methods, wrap_model
from explainers.__main__ import main
from explainers.methods.ranks import spearman
from explainers.models import devices
from explainers.models.devices import PRECISIONS, find_device, find_precision
from explainers.models.errors import ModelError
from explainers.models.vision_model import VisionModel
from explainers.trace import Trace
from tests.tiny import VARIANTS, tiny_photo_array, tiny_vit

LION = "app/examples/lion.jpg"
SLOW = ("integrated_gradients", "smoothgrad", "gradient_shap", "score_cam", "attention_flow")
QUICK = [n for n, m in methods().items() if m.question != "without" and n not in SLOW]
HALVES = ("bfloat16", "float16")
REFUSED = ("grad_cam_plus_plus", "xgrad_cam")  # rounding the weights alone makes another map


@pytest.fixture(scope="module")
def traces(root: Path) -> dict[str, Trace]:
    """One photo seen by the embedded model in each precision, at a smaller size."""
    photo = load_photo(root / LION)
    return {
        name: load_model("embedded", dtype=name, device="cpu", size=112).trace(photo)
        for name in PRECISIONS
    }


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("method", QUICK)
def test_half_precision_ranks_patches_as_float32_does(
    traces: dict[str, Trace], method: str, precision: str
) -> None:
    if method in REFUSED:
        support = traces[precision].model.supports(method)
        assert support.reason is not None
        assert "half precision" in str(support.reason)
        assert traces["float32"].model.supports(method)
        return
    aim = {"target": "lion"} if methods()[method].class_specific else {}
    expected = explain(method, traces["float32"], **aim).values
    found = explain(method, traces[precision], **aim).values
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert spearman(found, expected) >= 0.99


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "headless"])
def test_every_family_of_decision_works_in_half(variant: str, precision: str) -> None:
    vit = wrap_model(tiny_vit(dtype=PRECISIONS[precision], **VARIANTS[variant]))
    trace = vit.trace(load_photo(tiny_photo_array()))
    assert vit.attention_check, vit.attention_check
    for method in QUICK:
        if vit.supports(method):
            assert np.isfinite(explain(method, trace).values).all()


def test_the_model_computes_in_what_was_asked(traces: dict[str, Trace]) -> None:
    for name, trace in traces.items():
        assert trace.pixels.dtype == trace.model.dtype == PRECISIONS[name]
        assert trace.probabilities is not None
        assert trace.probabilities.dtype == torch.float32
        assert trace.top(1)[0][1].startswith("lion")
    kinds = {trace.model.weights_hash for trace in traces.values()}
    assert len(kinds) == len(PRECISIONS)


def test_numbers_that_overflow_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    module = tiny_vit(dtype=torch.float16)
    with torch.no_grad():
        module.head.weight.mul_(1e5)  # type: ignore[union-attr]
    vit: VisionModel = wrap_model(module)
    trace = vit.trace(load_photo(tiny_photo_array()))
    with pytest.raises(ModelError, match="half precision; try float32"):
        explain("saliency", trace, target=0)


# -- what is not there -------------------------------------------------------------------------


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert find_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert find_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == torch.device("cuda")
    for wrong in ("quantum", "meta", 7.5, [1]):
        with pytest.raises(ModelError, match="There is no device"):
            find_device(wrong)


def test_precisions_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    for name, kind in PRECISIONS.items():
        assert find_precision(name, cpu) == find_precision(kind, cpu) == kind
    for wrong in ("float64", "half", 16, None, torch.int8):
        with pytest.raises(ModelError, match="one of float32, bfloat16, float16"):
            find_precision(wrong, cpu)

    def refuse(*sizes: int, **options: object) -> None:
        raise RuntimeError("not implemented for 'Half'")

    monkeypatch.setattr(devices.torch, "ones", refuse)
    with pytest.raises(ModelError, match="cpu does not compute in float16; try float32"):
        find_precision("float16", cpu)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_device_that_is_not_there_is_refused_in_one_sentence(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", "embedded", "--out", str(tmp_path), "--methods", "attention"]
    assert main(["explain", str(root / LION), *options, "--device", "cuda"]) != 0
    assert "no device" in capsys.readouterr().err
    given = parse_page(["--device", "cuda"])
    problem = resolve("embedded", device=given.device, dtype=given.dtype).problem()
    assert problem is not None
    assert "no device" in problem
    wrong = resolve("embedded", dtype=parse_page(["--dtype", "float8"]).dtype).problem()
    assert wrong is not None
    assert "one of float32" in wrong


def test_the_command_line_computes_in_half(root: Path, tmp_path: Path) -> None:
    options = ["--model", "embedded", "--out", str(tmp_path), "--methods", "attention"]
    options += ["--format", "npz", "--quiet", "--device", "cpu", "--dtype", "bfloat16"]
    assert main(["explain", str(root / LION), *options]) == 0
    (path,) = tmp_path.rglob("*.npz")
    provenance = json.loads(str(np.load(path)["provenance"]))
    assert provenance["precision"] == "bfloat16"
