"""HiResCAM (Draelos & Carin, 2020) on the patches of one block."""

from __future__ import annotations

from explainers.heatmap import Finding
from explainers.methods.activations import AT, BLOCK, clipped, weighed
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, register
from explainers.trace import Trace


def hires_cam(
    trace: Trace, objective: Objective, progress: Progress, *, block: int, at: str
) -> Finding:
    """ReLU(Σ_d ∂y/∂A_d · A_d) for each patch (h, w): Grad-CAM without averaging gradients."""
    features, gradients = weighed(trace, objective, progress, block, at)  # (h·w, width)
    return clipped(trace, (gradients * features).sum(1))


METHOD = register(
    Method(
        name="hires_cam",
        title="HiResCAM",
        meaning="What each patch's own features add to this class's score, each feature weighed "
        "by how much the score depends on it in this very patch.",
        question="counted",
        class_specific=True,
        signed=False,
        unit="logit",
        needs=("features", "class", "gradients"),
        cost=lambda parameters, patches: 3,
        paper="Draelos & Carin, Use HiResCAM instead of Grad-CAM for faithful explanations of "
        "convolutional neural networks, 2020",
        bibtex="""@article{draelos2020use,
  title={Use HiResCAM instead of Grad-CAM for faithful explanations of convolutional neural
    networks},
  author={Draelos, Rachel Lea and Carin, Lawrence},
  journal={arXiv:2011.08891}, year={2020}}""",
        limits="Evidence against the class is clipped, as is usual (ReLU). It is exact only where "
        "the answer is linear in the features; in a Transformer it is a first-order estimate.",
        function=hires_cam,
        parameters=(BLOCK, AT),
    )
)
