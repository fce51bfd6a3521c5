"""Relevance (Chefer, Gur & Wolf, ICCV 2021): attention rolled out where it helps the class."""

from __future__ import annotations

from torch import Tensor

from explainers.gradients import Gradients
from explainers.heatmap import Finding
from explainers.methods.attention import over_patches
from explainers.methods.attention_gradients import clamp_then_mean, shared_gradients
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, register
from explainers.trace import Trace


def relevance(trace: Trace, objective: Objective, progress: Progress) -> Finding:
    """The decision row of R ← R + Ā R over the blocks, Ā = E_h[(A ⊙ ∂y/∂A)⁺], R = I at first.

    Computed from the top block down on one row, r ← r + r·Ā. An attention pool has no row
    among the tokens: r starts at E_h[(A ⊙ ∂y/∂A)⁺] of its latent. Rows are not normalised.
    """
    gradients = shared_gradients(trace, objective, progress)
    look = _start(trace, gradients)  # (N,)
    for block in range(trace.depth - 1, -1, -1):
        added = look.clone()
        pieces = clamp_then_mean(trace, gradients, block, look.nonzero().flatten())
        for rows, fused in pieces:
            added += look[rows] @ fused
        look = added
    return over_patches(trace, look, share=False)


def _start(trace: Trace, gradients: Gradients) -> Tensor:
    if trace.pool is None:
        return trace.decision_row()
    attention = trace.pool.rows(slice(0, 1))[0]  # (H, 1, N)
    return trace.pooled_row((attention * gradients.attention(-1)).clamp_(min=0).mean(0)[0])


METHOD = register(
    Method(
        name="relevance",
        title="Relevance",
        meaning="Which patches' attention, followed through all blocks, speaks for this class: "
        "attention counts only where more of it would raise the class's score.",
        question="counted",
        class_specific=True,
        signed=False,
        needs=("attention", "decision", "chain", "class", "gradients"),
        cost=lambda parameters, patches: 3,
        paper="Chefer, Gur & Wolf, Generic Attention-model Explainability, ICCV 2021",
        bibtex="""@inproceedings{chefer2021generic,
  title={Generic Attention-model Explainability for Interpreting Bi-modal and Encoder-Decoder
    Transformers},
  author={Chefer, Hila and Gur, Shir and Wolf, Lior},
  booktitle={ICCV}, year={2021}}""",
        limits="Negative contributions are clipped by definition: it does not show what speaks "
        "against the class. Values and MLPs count only through the gradient.",
        function=relevance,
    )
)
