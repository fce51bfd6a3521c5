"""XGrad-CAM (Fu et al., BMVC 2020) on the patches of one block."""

from __future__ import annotations

import torch

from explainers.heatmap import Finding
from explainers.methods.activations import AT, BLOCK, clipped, signs_note, weighed
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, register
from explainers.trace import Trace


def xgrad_cam(
    trace: Trace, objective: Objective, progress: Progress, *, block: int, at: str
) -> Finding:
    """ReLU(Σ_d w_d A_d), w_d = Σ_i g_id A_id / Σ_j A_jd with g = ∂y/∂A, for each patch (h, w).

    Before the ReLU the patches' values sum to Σ g·A, the first-order share of the score. A
    feature whose sum is exactly 0 has no such weight and is left out.
    """
    pair = weighed(trace, objective, progress, block, at)  # (h·w, width)
    # Sums of both signs cancel: in float32 a weight could lose half its digits.
    features, gradients = (tensor.cpu().double() for tensor in pair)
    sums = features.sum(0)
    weights = torch.where(sums == 0, 0, (gradients * features).sum(0) / sums)
    return clipped(trace, features @ weights, *signs_note(features))


METHOD = register(
    Method(
        name="xgrad_cam",
        title="XGrad-CAM",
        meaning="Grad-CAM with weights chosen so that the whole map adds up to what the features "
        "add to this class's score, to first order and before clipping.",
        question="counted",
        class_specific=True,
        signed=False,
        unit="logit",
        needs=("features", "class", "gradients", "float32"),
        cost=lambda parameters, patches: 3,
        paper="Fu et al., Axiom-based Grad-CAM: Towards Accurate Visualization and Explanation "
        "of CNNs, BMVC 2020",
        bibtex="""@inproceedings{fu2020axiom,
  title={Axiom-based Grad-CAM: Towards Accurate Visualization and Explanation of CNNs},
  author={Fu, Ruigang and Hu, Qingyong and Dong, Xiaohu and Guo, Yulan and Gao, Yinghui and
    Li, Biao},
  booktitle={BMVC}, year={2020}}""",
        limits="Unstable here: it was derived for features that are never negative, and a "
        "Transformer's change sign, so its weights divide by sums near 0. Evidence against the "
        "class is clipped by definition (ReLU).",
        function=xgrad_cam,
        parameters=(BLOCK, AT),
    )
)
