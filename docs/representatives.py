"""One small model of each family, without weights, for the matrix of docs/models.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

_TWO: dict[str, Any] = {"depth": 2, "num_classes": 10}
_BARE: dict[str, Any] = {"depth": 2, "num_classes": 0}


@dataclass(frozen=True)
class Representative:
    """family: what it stands for. built: what was built, in words. size: pixels, where asked."""

    family: str
    built: str
    make: Callable[[], nn.Module]
    size: int | None = None


def _timm(family: str, name: str, **settings: Any) -> Representative:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, **settings)

    return Representative(family, f"timm `{name}`", make)


def _transformers(family: str, kind: str, configuration: str, **settings: Any) -> Representative:
    def make() -> nn.Module:
        import transformers

        sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2}
        config = getattr(transformers, configuration)(
            **sizes, intermediate_size=64, image_size=64, patch_size=16, **settings
        )
        return getattr(transformers, kind)(config)

    return Representative(family, f"transformers `{kind}`", make)


def _torchvision() -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(64, 16, 2, 2, 64, 64, num_classes=10)


def _torchvision_swin() -> nn.Module:
    from torchvision.models.swin_transformer import SwinTransformer

    return SwinTransformer([4, 4], 8, [1, 2], [1, 2], [4, 4], num_classes=10)


def _transformers_swin() -> nn.Module:
    import transformers

    config = transformers.SwinConfig(
        image_size=64, embed_dim=8, depths=[1, 2], num_heads=[1, 2], window_size=4, num_labels=10
    )
    return transformers.SwinForImageClassification(config)


def _open_clip() -> nn.Module:
    from open_clip.transformer import VisionTransformer

    return VisionTransformer(64, 16, 64, 2, 2, mlp_ratio=1, output_dim=32)


def _reference() -> nn.Module:
    from explainers.models.vit import VisionTransformer

    return VisionTransformer(
        image_size=64, patch_size=16, width=64, depth=2, heads=2, mlp_width=64, classes=10
    )


class Own(nn.Module):
    """A Vision Transformer as tutorials write it, around someone's blocks."""

    def __init__(self, blocks: nn.Module) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 16, 16)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 64))
        self.pos_embed = nn.Parameter(torch.zeros(1, 17, 64))
        self.blocks, self.norm, self.head = blocks, nn.LayerNorm(64), nn.Linear(64, 10)

    def forward(self, photos: torch.Tensor) -> torch.Tensor:
        x = self.patches(photos).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class OwnBlock(nn.Module):
    """Attention by `F.scaled_dot_product_attention`, then an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(64), nn.LayerNorm(64)
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.mlp = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 2, 32)).permute(2, 0, 3, 1, 4)
        heads = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(heads.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 2, 64, batch_first=True, norm_first=True)
    return Own(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


def _own() -> nn.Module:
    return Own(nn.Sequential(OwnBlock(), OwnBlock()))


def _scripted() -> nn.Module:
    with torch.no_grad():
        return torch.jit.trace(_own().eval(), torch.zeros(1, 3, 64, 64))


def _quantised() -> nn.Module:
    import timm

    module = timm.create_model("vit_tiny_patch16_224", img_size=64, **_TWO).eval()
    return torch.ao.quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)


REPRESENTATIVES: tuple[Representative, ...] = (
    _timm("ViT, AugReg, DeiT, DINO, MAE", "vit_tiny_patch16_224", **_TWO),
    _timm("DeiT, distilled", "deit_tiny_distilled_patch16_224", **_TWO),
    _timm("DINOv2 with registers", "vit_small_patch14_reg4_dinov2", img_size=70, **_BARE),
    _timm("CLIP image tower", "vit_base_patch32_clip_224", **_BARE),
    _timm("SigLIP: attention pool", "vit_base_patch16_siglip_224", **_TWO),
    _timm("mean of the patches (`gap`)", "vit_base_patch16_siglip_gap_224", **_TWO),
    _timm("DINOv3", "vit_small_patch16_dinov3", **_BARE),
    _timm("EVA-02", "eva02_tiny_patch14_224", **_TWO),
    _timm("BEiT, BEiTv2", "beit_base_patch16_224", **_TWO),
    _timm("relative positions", "vit_relpos_small_patch16_224", **_TWO),
    _timm("NaFlexViT", "naflexvit_base_patch16_gap", **_TWO),
    _timm("hybrid ResNet-ViT", "vit_tiny_r_s16_p8_224", **_TWO),
    _timm("parallel blocks", "vit_base_patch16_xp_224", **_TWO),
    _timm("Segment Anything's encoder", "samvit_base_patch16", img_size=64, **_TWO),
    _timm("Swin", "swin_tiny_patch4_window7_224", depths=(1, 1, 2, 1), num_classes=10),
    _timm("Swin V2", "swinv2_tiny_window8_256", depths=(1, 1, 2, 1), num_classes=10),
    _timm("MaxViT", "maxvit_rmlp_pico_rw_256", num_classes=10),
    _timm("Hiera", "hiera_tiny_224", num_classes=10),
    _timm("MViTv2", "mvitv2_tiny", num_classes=10),
    _timm("PVT v2", "pvt_v2_b0", num_classes=10),
    _timm("Twins", "twins_pcpvt_small", num_classes=10),
    _timm("PiT", "pit_ti_224", num_classes=10),
    _timm("CaiT", "cait_xxs24_224", **_TWO),
    _timm("XCiT", "xcit_nano_12_p16_224", **_TWO),
    _timm("VOLO", "volo_d1_224", num_classes=10),
    _timm("CrossViT", "crossvit_tiny_240", num_classes=10),
    _timm("ResNet and other models without attention", "resnet18", num_classes=10),
    Representative("the reference ViT", "`explainers.models.vit`", _reference),
    Representative("torchvision ViT", "torchvision `VisionTransformer`", _torchvision),
    Representative("torchvision Swin", "torchvision `SwinTransformer`", _torchvision_swin, 64),
    _transformers("ViT", "ViTForImageClassification", "ViTConfig"),
    _transformers("DeiT, both heads", "DeiTForImageClassificationWithTeacher", "DeiTConfig"),
    _transformers(
        "BEiT", "BeitForImageClassification", "BeitConfig", use_relative_position_bias=True
    ),
    _transformers("DINOv2 with a head", "Dinov2ForImageClassification", "Dinov2Config"),
    _transformers("DINOv2 with registers", "Dinov2WithRegistersModel", "Dinov2WithRegistersConfig"),
    _transformers("CLIP", "CLIPVisionModelWithProjection", "CLIPVisionConfig"),
    Representative("Swin", "transformers `SwinForImageClassification`", _transformers_swin),
    Representative("open_clip image tower", "open_clip `VisionTransformer`", _open_clip),
    Representative("`nn.TransformerEncoder`", "a module of one's own", _encoder, 64),
    Representative("any other attention", "a module of one's own", _own, 64),
    Representative("TorchScript", "the same, traced by `torch.jit`", _scripted, 64),
    Representative("quantised", "a ViT with `qint8` linear layers", _quantised),
)
