"""Grad-CAM++ (Chattopadhay et al., WACV 2018) on the patches of one block."""

from __future__ import annotations

import torch

from explainers.heatmap import Finding
from explainers.methods.activations import AT, BLOCK, clipped, signs_note, weighed
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, register
from explainers.trace import Trace


def grad_cam_plus_plus(
    trace: Trace, objective: Objective, progress: Progress, *, block: int, at: str
) -> Finding:
    """ReLU(Σ_d w_d A_d), w_d = Σ_i α_id ReLU(g_id), for each patch (h, w).

    g = ∂y/∂A; α_id = g²/(2g² + g³ Σ_j A_jd) = 1/(2 + g_id Σ_j A_jd), 0 where that is not
    defined. As in the paper, y enters through exp: its derivatives are powers of g.
    """
    features, gradients = weighed(trace, objective, progress, block, at)  # (h·w, width)
    below = 2 + gradients * features.sum(0)
    alpha = torch.where(below == 0, 0, 1 / below)
    weights = (alpha * gradients.clamp(min=0)).sum(0)
    return clipped(trace, features @ weights, *signs_note(features))


METHOD = register(
    Method(
        name="grad_cam_plus_plus",
        title="Grad-CAM++",
        meaning="Grad-CAM with more weight on small places: patches where a feature raises this "
        "class's score count the more, the less of that feature there is elsewhere.",
        question="counted",
        class_specific=True,
        signed=False,
        needs=("features", "class", "gradients", "float32"),
        cost=lambda parameters, patches: 3,
        paper="Chattopadhay et al., Grad-CAM++: Generalized Gradient-based Visual Explanations "
        "for Deep Convolutional Networks, WACV 2018",
        bibtex="""@inproceedings{chattopadhay2018grad,
  title={Grad-CAM++: Generalized Gradient-based Visual Explanations for Deep Convolutional
    Networks},
  author={Chattopadhay, Aditya and Sarkar, Anirban and Howlader, Prantik and
    Balasubramanian, Vineeth N.},
  booktitle={WACV}, year={2018}}""",
        limits="Unstable here: it was derived for features that are never negative, and a "
        "Transformer's change sign, so its weights divide by numbers near 0. Evidence against "
        "the class is clipped by definition (ReLU).",
        function=grad_cam_plus_plus,
        parameters=(BLOCK, AT),
    )
)
