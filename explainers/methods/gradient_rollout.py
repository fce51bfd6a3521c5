"""Gradient rollout (vit-explain): attention rollout, each entry weighted by its gradient."""

from __future__ import annotations

from explainers.heatmap import Finding
from explainers.methods.attention import over_patches
from explainers.methods.attention_gradients import mean_then_clamp, shared_gradients
from explainers.methods.rollout import one_down
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, register
from explainers.trace import Trace


def gradient_rollout(trace: Trace, objective: Objective, progress: Progress) -> Finding:
    """The decision row of the product over blocks of rownorm(G + I), G = (E_h[A ⊙ ∂y/∂A])⁺.

    The mean over heads is taken first and then clamped. Every row of the product sums to 1.
    """
    gradients = shared_gradients(trace, objective, progress)
    look = trace.decision_row()
    for block in range(trace.depth - 1, -1, -1):
        look = one_down(look, mean_then_clamp(trace, gradients, block, look.nonzero().flatten()))
    return over_patches(trace, look)


METHOD = register(
    Method(
        name="gradient_rollout",
        title="Gradient rollout",
        meaning="Attention rollout for one class: attention is followed down the blocks, each "
        "piece weighted by how much it raises the class's score.",
        question="counted",
        class_specific=True,
        signed=False,
        needs=("attention", "decision", "chain", "class", "gradients"),
        cost=lambda parameters, patches: 3,
        paper="Gildenblat, Exploring Explainability for Vision Transformers (vit-explain), 2020",
        bibtex="""@misc{gildenblat2020exploring,
  title={Exploring Explainability for Vision Transformers},
  author={Gildenblat, Jacob}, year={2020},
  howpublished={https://github.com/jacobgil/vit-explain}}""",
        limits="Negative contributions are clipped by definition. Gradients of attention are "
        "small beside the residual connection, so little may leave the token that decides.",
        function=gradient_rollout,
    )
)
