"""Carrying weights between the reference ViT, its concise twin and timm's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from explainers.models.errors import ModelError
from explainers.models.vit import ConciseVisionTransformer, VisionTransformer
from explainers.sentence import Sentence

_CONCISE = {  # the reference's names → the concise twin's
    "attention.qkv.weight": "self_attn.in_proj_weight",
    "attention.qkv.bias": "self_attn.in_proj_bias",
    "attention.projection": "self_attn.out_proj",
    "mlp.rise": "linear1",
    "mlp.fall": "linear2",
}
_TIMM = {  # the reference's names → timm's
    "attention.qkv": "attn.qkv",
    "attention.projection": "attn.proj",
    "mlp.rise": "mlp.fc1",
    "mlp.fall": "mlp.fc2",
    "scale1": "ls1.gamma",
    "scale2": "ls2.gamma",
}


def copy_weights(source: nn.Module, target: nn.Module) -> None:
    """Give the target (reference or concise) the source's weights; both must be of one size.

    A patch's weights are permuted where one model flattens (P, P, C) and the other, a
    convolution, (C, P, P). Raises ModelError where shapes differ.
    """
    wanted = target.state_dict()
    given = _named_like(source.state_dict(), isinstance(target, ConciseVisionTransformer))
    missing = sorted(set(wanted) ^ set(given))
    if missing:
        raise ModelError(
            Sentence(
                "copy_names",
                "The two models are not built alike: {names} is in one of them only.",
                names=", ".join(missing[:3]),
            )
        )
    for name, tensor in given.items():
        if tensor.dim() != wanted[name].dim():
            given[name] = _repatched(tensor, wanted[name])
        if given[name].shape != wanted[name].shape:
            raise ModelError(
                Sentence(
                    "copy_shapes",
                    "{name} is {given} in one model and {wanted} in the other; build both of "
                    "one size.",
                    name=name,
                    given=tuple(given[name].shape),
                    wanted=tuple(wanted[name].shape),
                )
            )
    target.load_state_dict(given)


def from_timm(module: Any) -> VisionTransformer:
    """The reference ViT with the size, eps, LayerScale, qkv bias and weights of timm's module.

    Raises ModelError for what the reference does not have: another token than CLS, another
    pooling, norms or activations of another kind.
    """
    first = module.blocks[0]
    plain = (
        module.num_prefix_tokens == 1
        and module.global_pool == "token"
        and not module.no_embed_class
        and module.pos_embed is not None
        and isinstance(first.norm1, nn.LayerNorm)
        and isinstance(first.mlp.act, nn.GELU)
        and isinstance(first.attn.q_norm, nn.Identity)
        and isinstance(module.norm_pre, nn.Identity)
        and module.num_classes > 0
    )
    if not plain:
        raise ModelError(
            Sentence(
                "timm_not_plain",
                "The reference model is the plain ViT: one CLS token that decides, LayerNorm, "
                "GELU and learned positions; this timm model differs.",
            )
        )
    twin = VisionTransformer(
        image_size=module.patch_embed.img_size,
        patch_size=module.patch_embed.patch_size[0],
        width=module.embed_dim,
        depth=len(module.blocks),
        heads=first.attn.num_heads,
        mlp_width=first.mlp.fc1.out_features,
        classes=module.num_classes,
        eps=first.norm1.eps,
        qkv_bias=first.attn.qkv.bias is not None,
        layer_scale=not isinstance(first.ls1, nn.Identity),
    ).to(module.pos_embed.dtype)
    theirs = module.state_dict()
    state = {name: theirs[_timm_name(name)] for name in twin.state_dict()}
    weight = "embedding.projection.weight"
    state[weight] = _repatched(state[weight], twin.state_dict()[weight])
    twin.load_state_dict(state)
    return twin.eval()


def _timm_name(name: str) -> str:
    name = name.replace("embedding.projection", "patch_embed.proj")
    name = name.replace("positions.table", "pos_embed")
    for ours, theirs in _TIMM.items():
        name = name.replace(ours, theirs)
    return name


def _named_like(state: Mapping[str, Tensor], concise: bool) -> dict[str, Tensor]:
    """The state under the names of the concise twin, or of the reference."""
    names = {"positions.table": "pos_embed", "embedding.projection": "embedding"}
    named = {}
    for name, tensor in state.items():
        reference = name if "encoder.layers." not in name else _reference_name(name)
        if name == "pos_embed":
            reference = "positions.table"
        elif name.startswith("embedding.") and "projection" not in name:
            reference = name.replace("embedding", "embedding.projection")
        if concise:
            for ours, theirs in (*names.items(), *_CONCISE.items(), ("blocks.", "encoder.layers.")):
                reference = reference.replace(ours, theirs)
        named[reference] = tensor
    return named


def _reference_name(name: str) -> str:
    for ours, theirs in (*_CONCISE.items(), ("blocks.", "encoder.layers.")):
        name = name.replace(theirs, ours)
    return name


def _repatched(weight: Tensor, like: Tensor) -> Tensor:
    """Patch weights (W, C, P, P) as (W, P·P·C), or the other way, as ``like`` is."""
    if weight.dim() == 4:
        return weight.permute(0, 2, 3, 1).flatten(1)
    channels, patch = like.shape[1], like.shape[2]
    return weight.unflatten(1, (patch, patch, channels)).permute(0, 3, 1, 2).contiguous()
