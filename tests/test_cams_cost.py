"""The CAM family's cost, precision, and tensors left as they are."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from explainers import VisionModel, methods, wrap_model
from explainers.trace import Trace
from tests.cams import CAMS, PHOTO, WEIGHED, close, run, traced


def counted(trace: Trace) -> list[int]:
    """Grows by the number of photos at each run of the model."""
    runs: list[int] = []
    trace.model.module.register_forward_hook(lambda _, inputs, __: runs.append(len(inputs[0])))
    return runs


def test_the_default_cams_share_one_gradient_pass() -> None:
    for trace in (traced(), traced("average")):
        runs = counted(trace)
        run("saliency", trace, 1)
        for name in (*WEIGHED, "eigen_cam"):
            run(name, trace, 1)
            run(name, trace, 1, at="norm1")
        assert runs == [1]
        run("grad_cam", trace, 1, block=0)
        assert runs == [1, 1]
        run("hires_cam", trace, 2)
        assert runs == [1, 1, 1]


def test_eigen_and_score_cam_run_what_they_declare() -> None:
    trace = traced()
    runs = counted(trace)
    run("eigen_cam", trace)
    run("eigen_cam", trace, block=0)
    assert runs == [1, 1]
    run("eigen_cam", trace, block=1)  # of a kind that is at hand now
    assert runs == [1, 1]
    trace = trace.model.trace(PHOTO)
    runs.clear()
    run("score_cam", trace, 1, channels=11)
    assert sum(runs) == methods()["score_cam"].cost({"channels": 11}, 16) == 12
    assert max(runs) <= 8
    kept = trace.model.trace(PHOTO, keep=("norm1",))
    runs.clear()
    run("eigen_cam", kept)
    run("eigen_cam", kept, block=0, at="norm1")
    assert not runs


def test_the_way_to_the_features_does_not_show_in_the_map(embedded: VisionModel) -> None:
    """Kept by the trace, left by the gradient pass, or run again: the same bytes."""
    alone = embedded.trace(PHOTO)
    after = embedded.trace(PHOTO)
    run("saliency", after, 3)
    kept = embedded.trace(PHOTO, keep=("norm1", "output"))
    for at in ("norm1", "output"):
        maps = {run("eigen_cam", trace, at=at).values.tobytes() for trace in (alone, after, kept)}
        assert len(maps) == 1


def test_float32_is_near_float64_on_the_embedded_model(embedded: VisionModel) -> None:
    module = copy.deepcopy(embedded.module).double()
    exact = wrap_model(module, embedded.preprocessing).trace(PHOTO)
    trace = embedded.trace(PHOTO)
    for name in (*WEIGHED, "eigen_cam"):
        if name == "xgrad_cam":  # its sums cancel, which magnifies the features' own rounding
            features, gradients = (t[1:].double() for t in trace.gradients(3).tensors["norm1"])
            weights = (gradients * features).sum(0) / features.sum(0)
            wanted = (features @ weights).clamp(min=0).reshape(trace.grid).numpy()
        else:
            wanted = run(name, exact, 3).values
        size = np.abs(wanted).max()
        close(run(name, trace, 3).values / size, wanted / size, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_finite_float32(dtype: torch.dtype) -> None:
    trace = traced(dtype=dtype)
    for name in CAMS:
        if not trace.model.supports(name):
            assert name in ("grad_cam_plus_plus", "xgrad_cam")  # rounding decides their maps
            continue
        heat = run(name, trace, 1)
        assert heat.values.dtype == np.float32
        assert np.isfinite(heat.values).all()


@pytest.mark.parametrize("name", CAMS)
def test_captured_tensors_and_the_next_map_stay_as_they_are(name: str) -> None:
    trace = traced("average")
    pairs = trace.gradients(1).tensors
    before = {key: [tensor.clone() for tensor in pair] for key, pair in pairs.items()}
    first = run(name, trace, 1).values.tobytes()
    assert run(name, trace, 1).values.tobytes() == first
    for key, pair in trace.gradients(1).tensors.items():
        assert all(torch.equal(a, b) for a, b in zip(pair, before[key], strict=True))
