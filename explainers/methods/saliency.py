"""Saliency (Simonyan et al., 2014): how strongly each pixel moves the class's logit."""

from __future__ import annotations

from explainers.heatmap import Finding
from explainers.methods.pixel_maps import RESOLUTION, pixel_finding
from explainers.methods.scoring import Objective, Progress
from explainers.methods.shared_pass import through_captum
from explainers.registry import Method, register
from explainers.trace import Trace


def saliency(trace: Trace, objective: Objective, progress: Progress, *, resolution: str) -> Finding:
    """max over channels of |∂y/∂pixel|, (H, W) of the model input; y is the logit."""
    # Captum brings pyplot along, a second of start-up: only when it is used.
    from captum.attr import Saliency

    attributions = through_captum(Saliency, trace, objective, progress)  # (3, H, W), absolute
    return pixel_finding(trace, attributions.amax(0), resolution)


METHOD = register(
    Method(
        name="saliency",
        title="Saliency",
        meaning="Which pixels would change this class's score most if they changed a little.",
        question="counted",
        class_specific=True,
        signed=False,
        unit="|∂ logit / ∂ pixel|",
        needs=("class", "gradients"),
        cost=lambda parameters, patches: 3,
        paper="Simonyan, Vedaldi & Zisserman, Deep Inside Convolutional Networks, 2014",
        bibtex="""@inproceedings{simonyan2014deep,
  title={Deep Inside Convolutional Networks: Visualising Image Classification Models and
    Saliency Maps},
  author={Simonyan, Karen and Vedaldi, Andrea and Zisserman, Andrew},
  booktitle={ICLR Workshop}, year={2014}}""",
        limits="It speaks of very small changes only, and is noisy from pixel to pixel.",
        function=saliency,
        parameters=(RESOLUTION,),
    )
)
