"""torchvision's `VisionTransformer`: nn.MultiheadAttention in every block, one class token."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from explainers.models.adapters import YES, Adapter, BlockParts
from explainers.models.own_heads import said_classes
from explainers.models.preprocessing import Preprocessing
from explainers.registry import Support

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RESIZED, SWIN_RESIZED, CROPPED = 256, 232, 224
"""The short side and the crop of the weights torchvision trained itself."""


class TorchvisionAdapter(Adapter):
    """Reads the attributes of torchvision's module; its input has one size and no other."""

    family = "torchvision ViT"
    prefix = 1
    prefix_names = ("CLS",)
    pooling = "token"
    pooling_name = "token"

    def __init__(self, module: Any) -> None:
        self._module = module
        layers = list(module.encoder.layers)
        self.blocks = tuple(
            BlockParts(layer.ln_1, layer.ln_2, layer.self_attention.out_proj) for layer in layers
        )
        self.heads = layers[0].self_attention.num_heads
        self.head = module.heads
        self.classes = said_classes(self.head)
        self.patch = (module.patch_size, module.patch_size)
        self.input_size = (module.image_size, module.image_size)

    def readout_support(self) -> Support:
        return YES if self.classes else Adapter.readout_support(self)

    def read_out(self, stream: Tensor) -> Tensor:
        answer: Tensor = self._module.heads(self._module.encoder.ln(stream.mean(1)))
        return answer

    def _filters(self) -> Tensor | None:
        convolution = self._module.conv_proj
        return convolution.weight.detach() if isinstance(convolution, nn.Conv2d) else None

    def _positions(self) -> Tensor | None:
        table: Tensor = self._module.encoder.pos_embedding
        return table

    def _positions_grid(self) -> tuple[int, int]:
        side = self._module.image_size // self._module.patch_size
        return side, side


def swin_preprocessing(size: tuple[int, int]) -> Preprocessing:
    """What torchvision's own weights of Swin were trained for, at an input of this size."""
    return Preprocessing(size, *IMAGENET, "bicubic", CROPPED / SWIN_RESIZED)


def weights_preprocessing(size: tuple[int, int]) -> Preprocessing:
    """What torchvision's own ImageNet weights were trained for, at an input of this size."""
    return Preprocessing(size, *IMAGENET, "bilinear", CROPPED / RESIZED)
