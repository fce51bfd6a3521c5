"""LeGrad beside torch-cam's, on torchvision's Vision Transformer.

A test extra: `pip install -r requirements-peers.txt`; skipped where that is not installed.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torchvision.models import VisionTransformer

from explainers import HeatMap, explain, load_photo, wrap_model
from explainers.models.preprocessing import Preprocessing
from tests.tiny import seeded, shake, tiny_photo_array

peer = pytest.importorskip(
    "torchcam.methods", reason="torch-cam is not installed", exc_type=ImportError
)


def tiny_torchvision() -> VisionTransformer:
    with seeded(0):
        module = VisionTransformer(16, 4, 3, 2, 16, 32, num_classes=5)
        shake(module)
    return module.double().eval().requires_grad_(False)


@pytest.mark.parametrize("target", [0, 3])
def test_legrad_is_torch_cams_on_torchvisions_vit(target: int) -> None:
    module = tiny_torchvision()
    vit = wrap_model(module, Preprocessing((16, 16), mean=(0.5,) * 3, std=(0.5,) * 3))
    trace = vit.trace(load_photo(tiny_photo_array()))
    heat = explain("legrad", trace, target)
    assert isinstance(heat, HeatMap)
    theirs = copy.deepcopy(module)
    with torch.enable_grad(), peer.LeGrad(theirs, list(theirs.encoder.layers)) as extractor:
        extractor.model(trace.pixels.clone().requires_grad_())
        (found,) = extractor(target, normalized=False)
    np.testing.assert_allclose(heat.values, found[0].detach().numpy(), rtol=1e-10, atol=1e-14)
