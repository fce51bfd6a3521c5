"""What RISE, ViT-CX, Kernel SHAP, LIME and occlusion share: seeds, squares, cut edges, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import ModelError, VisionModel, explain, wrap_model
from explainers.methods.hiding import sampled_squares, squares
from explainers.models.adapters import YES, Adapter
from explainers.models.preprocessing import Preprocessing
from explainers.trace import Trace
from tests.perturbation import PHOTO, close, run, traced
from tests.tiny import tiny_pixels, tiny_vit

# -- what all share ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rise", "vit_cx", "kernel_shap", "lime"])
def test_a_seed_names_the_draws(name: str) -> None:
    few = {"rise": {"masks": 20}, "vit_cx": {}}.get(name, {"samples": 64})
    trace = traced()
    values = run(name, trace, seed=3, **few).values
    assert values.tobytes() == run(name, traced(), seed=3, **few).values.tobytes()
    assert not np.allclose(values, run(name, trace, seed=4, **few).values, atol=1e-12)


def test_squares_are_as_many_as_the_samples_suffice_for() -> None:
    assert squares((3, 5), 2).tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]
    assert int(sampled_squares((14, 14), 0, 1024).max()) == 195  # one patch each
    assert int(sampled_squares((24, 24), 0, 1024).max()) == 143  # 2 × 2
    assert int(sampled_squares((37, 37), 0, 1024).max()) == 168  # 3 × 3
    assert int(sampled_squares((24, 24), 1, 4 * 576).max()) == 575
    with pytest.raises(ModelError, match=r"1024 samples are too few for the 576 parts.*2304"):
        sampled_squares((24, 24), 1, 1024)
    assert int(sampled_squares((3, 3), 0, 2).max()) == 0


class Cropped(nn.Module):
    """y_c = Σ w_c · x over whole 3×5 patches of an 8×12 input; the rest is cut off."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(6)
        self.w = nn.Parameter(torch.randn(2, 3, 6, 10, generator=generator, dtype=torch.float64))

    def forward(self, pixels: Tensor) -> Tensor:
        return pixels[..., :6, :10].flatten(1) @ self.w.flatten(1).T


@pytest.mark.parametrize("name", ["occlusion", "kernel_shap", "lime"])
def test_pixels_beyond_the_last_whole_patch_do_not_matter(name: str) -> None:
    adapter = Adapter()
    adapter.patch, adapter.classes = (3, 5), 2
    preprocessing = Preprocessing((8, 12), (0.5,) * 3, (0.5,) * 3, crop_pct=1.0)
    vit = VisionModel(Cropped().eval(), "cropped", preprocessing, adapter, classes=2)
    vit.attention_check = YES
    pixels = tiny_pixels(1, (8, 12))
    geometry = preprocessing.geometry(PHOTO, (3, 5))
    trace = Trace(vit, [PHOTO], [geometry], pixels, vit.logits(pixels).detach(), [], {})
    more = {"ridge": 0.0} if name == "lime" else {}
    heat = run(name, trace, fill="grey", score="logit", **more)
    product = (vit.module.w[1] * pixels[0, :, :6, :10]).detach().sum(0)
    close(heat.values, product.reshape(2, 3, 2, 5).sum((1, 3)), 1e-9)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("rise", {"masks": 1}, r"2\.\.10000"),
        ("rise", {"share": 1.0}, r"0\.05\.\.0\.95"),
        ("rise", {"fill": "remove"}, "one of black"),
        ("kernel_shap", {"samples": 7}, r"8\.\.20000"),
        ("kernel_shap", {"window": -1}, r"0\.\.64"),
        ("lime", {"width": 0.0}, r"0\.01\.\.10"),
        ("lime", {"ridge": -1.0}, r"0\.0\.\.1000"),
        ("vit_cx", {"masks": 1}, r"2\.\.4096"),
        ("vit_cx", {"level": "average"}, "one of photo, zero"),
        ("occlusion", {"fill": "pink"}, "blur, remove"),
        ("occlusion", {"compare": "maybe"}, "one of no, yes"),
    ],
)
def test_bad_settings_name_the_range(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(name, traced(), **settings)


@pytest.mark.parametrize("name", ["rise", "vit_cx", "kernel_shap", "lime", "occlusion"])
def test_headless_models_are_refused(name: str) -> None:
    vit = wrap_model(tiny_vit(num_classes=0))
    assert not vit.supports(name)
    with pytest.raises(ModelError, match="no classification head"):
        explain(name, vit.trace(PHOTO))
