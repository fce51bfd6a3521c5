"""Why the attention of some families is not shown: what each one does that has no plain map."""

from __future__ import annotations

from torch import nn

from explainers.sentence import Sentence


def unread(module: nn.Module) -> Sentence:
    """The reason for a module, by the kinds of attention found in it."""
    kinds = {type(part).__name__ for part in module.modules()}
    if kinds & {"XCA", "CrossCovarianceAttn", "ChannelAttention", "ChannelAttentionV2"}:
        return Sentence(
            "attention_of_channels",
            "In {family}, channels attend to channels, not patches to patches (wholly or in "
            "part), so there are no rows over the photo to show; its feature maps, gradients "
            "and perturbations are.",
            family=type(module).__name__,
        )
    if "TalkingHeadAttn" in kinds:
        return Sentence(
            "attention_talking_heads",
            "In {family} the heads mix their weights after the softmax (talking heads), so no "
            "head's attention is a distribution over the patches; its feature maps, gradients "
            "and perturbations are shown.",
            family=type(module).__name__,
        )
    if "CrossVit" in kinds:
        return Sentence(
            "attention_of_branches",
            "{family} cuts the photo twice, into small and large patches, and its branches look "
            "at each other's, so there is no one grid of attention; its feature maps, gradients "
            "and perturbations are shown.",
            family=type(module).__name__,
        )
    if kinds & {"OutlookAttention"}:
        return Sentence(
            "attention_outlook",
            "The first blocks of {family} compute weights from a patch alone (outlook "
            "attention), without looking at others, so there is no row of looks to show; its "
            "feature maps, gradients and perturbations are.",
            family=type(module).__name__,
        )
    return Sentence(
        "attention_not_read",
        "How the attention of {family} lies on a grid is not read, so its rows cannot be shown; "
        "its feature maps, gradients and perturbations are.",
        family=type(module).__name__,
    )
