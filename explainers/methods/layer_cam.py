"""LayerCAM (Jiang et al., IEEE TIP 2021) on the patches of one block."""

from __future__ import annotations

from explainers.heatmap import Finding
from explainers.methods.activations import AT, BLOCK, clipped, weighed
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, register
from explainers.trace import Trace


def layer_cam(
    trace: Trace, objective: Objective, progress: Progress, *, block: int, at: str
) -> Finding:
    """ReLU(Σ_d ReLU(∂y/∂A_d) · A_d) for each patch (h, w)."""
    features, gradients = weighed(trace, objective, progress, block, at)  # (h·w, width)
    return clipped(trace, (gradients.clamp(min=0) * features).sum(1))


METHOD = register(
    Method(
        name="layer_cam",
        title="LayerCAM",
        meaning="What each patch's features add to this class's score, counting only features of "
        "which the class wants more in that patch.",
        question="counted",
        class_specific=True,
        signed=False,
        unit="logit",
        needs=("features", "class", "gradients"),
        cost=lambda parameters, patches: 3,
        paper="Jiang et al., LayerCAM: Exploring Hierarchical Class Activation Maps for "
        "Localization, IEEE Transactions on Image Processing 30, 2021",
        bibtex="""@article{jiang2021layercam,
  title={LayerCAM: Exploring Hierarchical Class Activation Maps for Localization},
  author={Jiang, Peng-Tao and Zhang, Chang-Bin and Hou, Qibin and Cheng, Ming-Ming and
    Wei, Yunchao},
  journal={IEEE Transactions on Image Processing}, volume={30}, pages={5875--5888}, year={2021}}""",
        limits="Clipped twice by definition (ReLU): negative gradients, then negative sums. A "
        "Transformer's features can be negative, where a negative gradient would speak for the "
        "class; that evidence is dropped.",
        function=layer_cam,
        parameters=(BLOCK, AT),
    )
)
