"""Grad-CAM (Selvaraju et al., ICCV 2017) on the patches of one block."""

from __future__ import annotations

from explainers.heatmap import Finding
from explainers.methods.activations import AT, BLOCK, clipped, weighed
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, register
from explainers.trace import Trace


def grad_cam(
    trace: Trace, objective: Objective, progress: Progress, *, block: int, at: str
) -> Finding:
    """ReLU(Σ_d w_d A_d), w_d = mean over patches of ∂y/∂A_d, for each patch (h, w).

    The baseline called Grad-CAM in Chefer et al. (CVPR 2021) is another one: it weighs the
    last block's attention, not its features.
    """
    features, gradients = weighed(trace, objective, progress, block, at)  # (h·w, width)
    return clipped(trace, features @ gradients.mean(0))


METHOD = register(
    Method(
        name="grad_cam",
        title="Grad-CAM",
        meaning="Where the features are that speak for this class: each feature counts as much as "
        "the class's score depends on it on average over the photo.",
        question="counted",
        class_specific=True,
        signed=False,
        needs=("features", "class", "gradients"),
        cost=lambda parameters, patches: 3,
        paper="Selvaraju et al., Grad-CAM: Visual Explanations from Deep Networks via "
        "Gradient-based Localization, ICCV 2017",
        bibtex="""@inproceedings{selvaraju2017grad,
  title={Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization},
  author={Selvaraju, Ramprasaath R. and Cogswell, Michael and Das, Abhishek and
    Vedantam, Ramakrishna and Parikh, Devi and Batra, Dhruv},
  booktitle={ICCV}, year={2017}}""",
        limits="Evidence against the class is clipped by definition (ReLU). It was made for "
        "convolutions: averaging the gradient over patches forgets that one feature can count "
        "for the class in one place and against it in another.",
        function=grad_cam,
        parameters=(BLOCK, AT),
    )
)
