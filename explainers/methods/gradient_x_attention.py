"""Gradient × attention of one block: the deciding token's look where it helps the class."""

from __future__ import annotations

import torch

from explainers.heatmap import Finding
from explainers.methods.attention import over_patches
from explainers.methods.attention_gradients import clamp_then_mean, shared_gradients
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, Parameter, register
from explainers.trace import Trace


def gradient_x_attention(
    trace: Trace, objective: Objective, progress: Progress, *, block: int
) -> Finding:
    """The decision row of E_h[(A ⊙ ∂y/∂A)⁺] in one block."""
    gradients = shared_gradients(trace, objective, progress)
    weights = trace.decision_row()
    look = torch.zeros_like(weights)
    pieces = clamp_then_mean(trace, gradients, block, weights.nonzero().flatten())
    for rows, fused in pieces:
        look += weights[rows] @ fused
    return over_patches(trace, look, share=False)


METHOD = register(
    Method(
        name="gradient_x_attention",
        title="Gradient × attention",
        meaning="Which patches the deciding token looks at in one block with effect: its "
        "attention, times how much more of it would raise this class's score.",
        question="counted",
        class_specific=True,
        signed=False,
        unit="attention × ∂ logit / ∂ attention",
        needs=("attention", "decision", "class", "gradients"),
        cost=lambda parameters, patches: 3,
        paper="Barkan et al., Grad-SAM: Explaining Transformers via Gradient Self-Attention "
        "Maps, CIKM 2021",
        bibtex="""@inproceedings{barkan2021gradsam,
  title={Grad-SAM: Explaining Transformers via Gradient Self-Attention Maps},
  author={Barkan, Oren and Hauon, Edan and Caciularu, Avi and Katz, Ori and Malkiel, Itzik and
    Armstrong, Omri and Koenigstein, Noam},
  booktitle={CIKM}, year={2021}}""",
        limits="Negative contributions are clipped by definition, and one block sees tokens "
        "that earlier blocks have already mixed.",
        function=gradient_x_attention,
        parameters=(
            Parameter("block", -1, "block", "Which block, counted from 0; -1 is the last."),
        ),
    )
)
