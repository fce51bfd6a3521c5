"""A head that someone put in the place of a model's own: its classes are the real answer's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import nn
from torchvision.models.swin_transformer import SwinTransformer

from explainers import ModelError, Photo, explain, wrap_model
from explainers.models.preprocessing import Preprocessing
from tests import families
from tests.grid_families import grid_model, size_of
from tests.other_libraries import build
from tests.test_sizes import reference
from tests.test_swin_libraries import torchvision_swin, transformers_swin
from tests.tiny import WIDTH, seeded, tiny_encoder, tiny_photo_array, tiny_vit

OTHER = 7
PHOTO = Photo(tiny_photo_array(40, 60))


def _xcit() -> Any:
    return timm.create_model("xcit_nano_12_p16_224", embed_dim=32, depth=2, num_heads=2)


MODELS: dict[str, tuple[Callable[[], Any], str, tuple[int, int]]] = {
    "torchvision": (lambda: build("torchvision"), "heads", (16, 16)),
    "torchvision, the layer": (lambda: build("torchvision"), "heads.head", (16, 16)),
    "torchvision Swin": (torchvision_swin, "head", (32, 32)),
    "transformers ViT": (lambda: build("vit"), "classifier", (16, 16)),
    "transformers DINOv2": (lambda: build("dinov2"), "classifier", (16, 16)),
    "transformers CLIP": (lambda: build("clip"), "classifier", (16, 16)),
    "transformers Swin": (transformers_swin, "classifier", (32, 32)),
    "timm ViT": (tiny_vit, "head", (16, 16)),
    "timm ViT, built without": (lambda: tiny_vit(num_classes=0), "head", (16, 16)),
    "timm EVA": (lambda: families.build("EVA"), "head", (12, 20)),
    "timm Qwen3": (lambda: families.build("Qwen3"), "head", (12, 20)),
    "timm Swin": (lambda: grid_model("swin"), "head.fc", size_of("swin")),
    "timm PVT": (lambda: grid_model("pvt_v2"), "head", size_of("pvt_v2")),
    "timm MaxViT": (lambda: grid_model("maxvit"), "head.fc", size_of("maxvit")),
    "timm PiT": (lambda: grid_model("pit"), "head", size_of("pit")),
    "timm XCiT": (_xcit, "head", (64, 64)),
    "reference": (lambda: reference("1d"), "head", (16, 16)),
    "concise": (lambda: reference("1d", concise=True), "head", (16, 16)),
    "encoder": (tiny_encoder, "head", (16, 16)),
}
"""How a model is built, where its head is, and the size of its input."""


def replaced(name: str, kind: str) -> tuple[nn.Module, tuple[int, int]]:
    make, place, size = MODELS[name]
    module = make().double()
    owner, _, last = place.rpartition(".")
    parent = module.get_submodule(owner)
    width = _width(module, place, name)
    with seeded(1):
        layer = nn.Linear(width, OTHER)
        heads = {
            "linear": layer,
            "sequential": nn.Sequential(nn.Dropout(0.1), layer),
            "mlp": nn.Sequential(nn.Linear(width, 12), nn.GELU(), nn.Linear(12, OTHER)),
            "wrapped": _Scaled(layer),
            "identity": nn.Identity(),
        }
    setattr(parent, last, heads[kind].double())
    return module.eval(), size


class _Scaled(nn.Module):
    """A head of one's own, whose last layer with a matrix is not the last of its steps."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer, self.unused = layer, nn.Linear(3, 11)

    def forward(self, x: Any) -> Any:
        return self.layer(x) * 2


def _width(module: nn.Module, place: str, name: str) -> int:
    if name == "timm ViT, built without":
        return WIDTH
    layers = [m for m in module.get_submodule(place).modules() if isinstance(m, nn.Linear)]
    return layers[0].in_features


def wrapped(module: nn.Module, size: tuple[int, int]) -> Any:
    half = (0.5, 0.5, 0.5)
    return wrap_model(module, Preprocessing(size, half, half), size=size)


@pytest.mark.parametrize("kind", ["linear", "sequential", "mlp", "wrapped"])
@pytest.mark.parametrize("name", MODELS)
def test_the_classes_are_those_of_the_answer(name: str, kind: str) -> None:
    module, size = replaced(name, kind)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    vit = wrapped(module, size)
    trace = vit.trace(PHOTO)
    assert trace.logits.shape[1] == vit.classes == OTHER
    assert vit.supports("occlusion"), vit.supports("occlusion").reason
    assert np.isfinite(explain("saliency", trace, target=OTHER - 1).values).all()
    labels = [f"name {i}" for i in range(OTHER)]
    assert wrap_model(module, vit.preprocessing, labels, size).label(6) == "name 6"
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())


@pytest.mark.parametrize(
    "name", [n for n in MODELS if n not in ("encoder", "concise", "timm ViT, built without")]
)
def test_without_a_head_there_are_no_classes(name: str) -> None:
    module, size = replaced(name, "identity")
    assert wrapped(module, size).classes == 0


def test_names_of_the_head_that_was_there_before_are_not_used() -> None:
    module, size = replaced("transformers ViT", "linear")
    config: Any = module.config
    config.id2label = {0: "cat", 1: "dog"}
    vit = wrapped(module, size)
    assert (vit.labels, vit.label(3)) == (None, "class 3")
    assert "labels_unknown" in [note.key for note in vit.notes]
    with pytest.raises(ModelError, match="2 labels were given for a model of 7 classes"):
        wrap_model(module, vit.preprocessing, ["cat", "dog"], size)


def test_a_readout_asks_the_new_head() -> None:
    module, size = replaced("torchvision", "sequential")
    vit = wrapped(module, size)
    assert vit.adapter.readout_support()
    assert vit.adapter.read_out(torch.zeros(1, 17, WIDTH).double()).shape == (1, OTHER)


def test_in_training_mode_nothing_is_run() -> None:
    module, size = replaced("torchvision", "sequential")
    module.heads = nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, OTHER))
    module.train()
    vit = wrapped(module, size)
    assert vit.classes == OTHER
    assert module.heads[0].num_batches_tracked == 0


def test_a_class_of_ones_own_that_answers_more_is_asked() -> None:
    class Mine(SwinTransformer):
        def forward(self, x: Any) -> Any:
            return super().forward(x)[:, :3]

    module = Mine([4, 4], 8, [2, 2], [2, 4], [4, 4], num_classes=OTHER).eval()
    assert wrapped(module, (32, 32)).classes == 3
