"""Input × gradient (Shrikumar et al., 2016): the first-order share of each pixel."""

from __future__ import annotations

from explainers.heatmap import Finding
from explainers.methods.pixel_maps import RESOLUTION, pixel_finding
from explainers.methods.scoring import Objective, Progress
from explainers.methods.shared_pass import through_captum
from explainers.registry import Method, register
from explainers.trace import Trace


def input_x_gradient(
    trace: Trace, objective: Objective, progress: Progress, *, resolution: str
) -> Finding:
    """Σ over channels of pixel · ∂y/∂pixel, (H, W) of the model input, signed.

    The pixel is the normalised one: its zero is the training set's mean colour.
    """
    # Captum brings pyplot along, a second of start-up: only when it is used.
    from captum.attr import InputXGradient

    attributions = through_captum(InputXGradient, trace, objective, progress)  # (3, H, W)
    return pixel_finding(trace, attributions.sum(0), resolution)


METHOD = register(
    Method(
        name="input_x_gradient",
        title="Input × gradient",
        meaning="What each pixel, as it differs from the average colour, adds to this class's "
        "score (or takes from it) if the model were linear around this photo.",
        question="counted",
        class_specific=True,
        signed=True,
        unit="logit",
        needs=("class", "gradients"),
        cost=lambda parameters, patches: 3,
        paper="Shrikumar et al., Not Just a Black Box, 2016",
        bibtex="""@article{shrikumar2016not,
  title={Not Just a Black Box: Learning Important Features Through Propagating Activation
    Differences},
  author={Shrikumar, Avanti and Greenside, Peyton and Shcherbina, Anna and Kundaje, Anshul},
  journal={arXiv:1605.01713}, year={2016}}""",
        limits="A model is not linear, and pixels of the average colour always count zero.",
        function=input_x_gradient,
        parameters=(RESOLUTION,),
    )
)
