"""Principal components of the patch features as colours (Oquab et al., DINOv2, 2023)."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.patch_features import AT, BLOCK, token_features
from explainers.methods.scoring import Progress
from explainers.registry import Method, register
from explainers.trace import Trace

COMPONENTS = 3


def feature_pca(
    trace: Trace, objective: None, progress: Progress, *, block: int, at: str
) -> Finding:
    """Each patch's place along the features' first three principal axes: (h, w, 3), signed.

    The features are centred on the patches' mean. An axis points where its largest loading is
    positive. An axis along which nothing but rounding varies is zero. The figure
    ``explained_variance_percent`` is the three axes' share of the variance, in per cent.
    """
    features = token_features(trace, progress, block, at)[trace.prefix :]  # (h·w, width)
    rounding = torch.finfo(trace.pixels.dtype).eps * float(features.norm())
    places, explained = components(features, rounding)
    return Finding(
        places.reshape(*trace.grid, COMPONENTS).numpy(),
        kind="rgb",
        figures={"explained_variance_percent": 100 * explained},
    )


def components(features: Tensor, rounding: float) -> tuple[Tensor, float]:
    """Coordinates (n, 3) of n vectors along their principal axes; the share these explain (0..1).

    Axes whose singular value does not exceed ``rounding`` count nothing.
    """
    centred = features - features.mean(0)  # (n, width)
    # R of a QR decomposition has the same axes, and is small however many vectors there are.
    tall = centred.shape[0] > centred.shape[1]
    small = torch.linalg.qr(centred, mode="r").R if tall else centred
    _, strengths, axes = torch.linalg.svd(small, full_matrices=False)
    strengths, axes = strengths[:COMPONENTS], axes[:COMPONENTS]  # (3,), (3, width)
    loadings = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    axes = axes * loadings.sign() * (strengths > rounding)[:, None]
    places = centred.new_zeros(len(features), COMPONENTS)
    places[:, : len(axes)] = centred @ axes.T
    variance = float(centred.square().sum())
    return places, float(places.square().sum()) / variance if variance else 0.0


METHOD = register(
    Method(
        name="feature_pca",
        title="Feature colours (PCA)",
        meaning="What looks alike to the model: patches of like colour have like features, in "
        "the three directions in which the photo's patches differ most.",
        question="sees",
        class_specific=False,
        signed=True,
        needs=("features",),
        cost=lambda parameters, patches: 1,
        paper="Oquab et al., DINOv2: Learning Robust Visual Features without Supervision, 2023",
        bibtex="""@article{oquab2023dinov2,
  title={DINOv2: Learning Robust Visual Features without Supervision},
  author={Oquab, Maxime and Darcet, Timoth{\\'e}e and Moutakanni, Th{\\'e}o and Vo, Huy V. and
    Szafraniec, Marc and Khalidov, Vasil and others},
  journal={arXiv:2304.07193}, year={2023}}""",
        limits="The colours belong to this photo alone: the same colour in another photo means "
        "something else. Three directions are not all there is.",
        function=feature_pca,
        parameters=(BLOCK, AT),
    )
)
