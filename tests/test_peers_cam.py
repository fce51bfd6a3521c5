"""The CAM family beside pytorch-grad-cam: equal where it is right, our value where it is not.

A test extra: `pip install -r requirements-peers.txt`; skipped where that is not installed.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from explainers import HeatMap, explain, load_photo, wrap_model
from explainers.methods.score_cam import _masks
from explainers.trace import Trace
from tests.tiny import VARIANTS, tiny_photo_array, tiny_vit

peer = pytest.importorskip(
    "pytorch_grad_cam", reason="pytorch-grad-cam is not installed", exc_type=ImportError
)

PHOTO = load_photo(tiny_photo_array())
PEERS = {
    "grad_cam": "GradCAM",
    "hires_cam": "HiResCAM",
    "layer_cam": "LayerCAM",
    "eigen_cam": "EigenCAM",
    "score_cam": "ScoreCAM",
    "xgrad_cam": "XGradCAM",
}
PLACES = [
    (variant, block, at)
    for variant in ("plain", "rectangle", "registers", "average", "average_registers")
    for block, at in ((2, "norm1"), (1, "output"), (0, "norm1"))
] + [("average", 2, "output"), ("average_registers", 2, "output")]


def ours(name: str, trace: Trace, **settings: Any) -> np.ndarray:
    heat = explain(name, trace, None if name == "eigen_cam" else 3, **settings)
    assert isinstance(heat, HeatMap)
    return heat.values


def theirs(name: str, trace: Trace, block: int, at: str, thawed: bool = True) -> np.ndarray:
    """The peer's map (H, W) of the model input, from 0 to 1, on a copy of the model."""
    module = copy.deepcopy(trace.model.module).requires_grad_(thawed)
    layer = module.blocks[block]

    def patches(tensor: Tensor) -> Tensor:
        return tensor[:, trace.prefix :].unflatten(1, trace.grid).permute(0, 3, 1, 2)

    layers = [layer.norm1 if at == "norm1" else layer]
    with torch.enable_grad(), getattr(peer, PEERS[name])(module, layers, patches) as cam:
        cam.batch_size = 8
        return cam(trace.pixels.clone(), [peer.utils.model_targets.ClassifierOutputTarget(3)])[0]


def displayed(values: np.ndarray, trace: Trace) -> np.ndarray:
    """Our values as the peer displays its own: clipped, min-max, resized, min-max again."""
    height, width = trace.pixels.shape[-2:]
    scale = peer.utils.image.scale_cam_image
    return scale(scale(np.maximum(values, 0)[None], (width, height)))[0]


def close(values: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(values, wanted, rtol=0, atol=2e-5)  # the peer answers in float32


def traced(variant: str, **more: Any) -> Trace:
    return wrap_model(tiny_vit(**{**VARIANTS[variant], **more})).trace(PHOTO)


@pytest.mark.parametrize(("variant", "block", "at"), PLACES)
@pytest.mark.parametrize("name", ["grad_cam", "hires_cam", "layer_cam"])
def test_gradient_cams_equal_the_peer(name: str, variant: str, block: int, at: str) -> None:
    trace = traced(variant)
    wanted = theirs(name, trace, block, at)
    close(displayed(ours(name, trace, block=block, at=at), trace), wanted)


@pytest.mark.parametrize(("variant", "block", "at"), PLACES)
def test_eigen_cam_equals_the_peer_but_for_its_sign(variant: str, block: int, at: str) -> None:
    """The peer leaves the axis's sign to the SVD and clips, so either half may be what it shows."""
    trace = traced(variant)
    values, wanted = (
        ours("eigen_cam", trace, block=block, at=at),
        theirs("eigen_cam", trace, block, at),
    )
    halves = [displayed(sign * values, trace) for sign in (1, -1)]
    nearer = min(halves, key=lambda half: np.abs(half - wanted).max())
    close(nearer, wanted)


def test_the_peers_eigen_cam_shows_an_arbitrary_half() -> None:
    signs = set()
    for seed in range(8):
        trace = traced("plain", seed=seed)
        values, wanted = ours("eigen_cam", trace), theirs("eigen_cam", trace, 2, "norm1")
        signs.add(np.abs(displayed(values, trace) - wanted).max() < 2e-5)
    assert signs == {True, False}  # ours is one convention and keeps both halves


@pytest.mark.parametrize(("variant", "block", "at"), PLACES)
def test_score_cam_equals_the_peer_with_its_masks_in_place(
    variant: str, block: int, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer stretches masks corner to corner: a cell's mask then lies off its patch."""
    trace = traced(variant)
    centred = functools.partial(torch.nn.Upsample, mode="bilinear", align_corners=False)
    monkeypatch.setattr(torch.nn, "UpsamplingBilinear2d", centred)
    wanted = theirs("score_cam", trace, block, at)
    close(displayed(ours("score_cam", trace, block=block, at=at), trace), wanted)


def test_the_peers_score_cam_masks_lie_off_their_patches() -> None:
    """A channel that is high in the second of four cells: centre at pixel 6 of 16, not 5⅓."""
    cells = torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(1, 1, 4, 4)
    rows = torch.arange(16) + 0.5

    def centre(mask: Tensor) -> float:
        return float((mask[0, 0, 0] * rows).sum() / mask[0, 0, 0].sum())

    trace = traced("plain")
    assert centre(_masks(trace, cells[0].double())) == pytest.approx(6)
    assert centre(torch.nn.UpsamplingBilinear2d(size=(16, 16))(cells)) < 5.6
    maps = [
        displayed(ours("score_cam", trace, at="norm1", block=0), trace),
        theirs("score_cam", trace, 0, "norm1"),
    ]
    assert np.abs(maps[0] - maps[1]).max() > 1e-3


@pytest.mark.parametrize(("variant", "block", "at"), PLACES)
def test_xgrad_cam_equals_the_peer_but_for_its_epsilon(variant: str, block: int, at: str) -> None:
    trace = traced(variant)
    wanted = theirs("xgrad_cam", trace, block, at)
    close(displayed(ours("xgrad_cam", trace, block=block, at=at), trace), wanted)


def test_the_peer_gives_no_map_of_a_frozen_model() -> None:
    """It waits for gradients that a frozen model's input never asks for; ours asks for them."""
    trace = traced("plain")
    trace.model.module.requires_grad_(False)
    with pytest.raises(RuntimeError, match="does not require grad"):
        theirs("grad_cam", trace, 2, "norm1", thawed=False)
    frozen = ours("grad_cam", trace)
    np.testing.assert_array_equal(frozen, ours("grad_cam", traced("plain")))
