"""DAAM for ViTs (Liao et al., 2025): attention to the values that carry the class."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.attention_call import exact
from explainers.gradients import Gradients, gradient_pass
from explainers.heatmap import Finding
from explainers.methods.attention import over_patches
from explainers.methods.attention_gradients import shared_gradients
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, register
from explainers.trace import Trace


def daam(trace: Trace, objective: Objective | None, progress: Progress) -> Finding:
    """Σ over blocks of ReLU(Σ_ih A[h,i,j] ⟨ReLU(∂y/∂T)[i,h], v[h,j]⟩), T = A v, for patch j.

    i runs over the rows that decide: CLS (and DIST), or every patch where the model averages.
    A model without a head is explained by its own feature f: y = Σ_d w_d f_d, with weights w
    the squares of f scaled to length 1, held constant.
    """
    if objective is None:
        progress(0, 1)
        gradients = gradient_pass(trace.model, trace.pixels, _own_feature, keep=())
    else:
        gradients = shared_gradients(trace, objective, progress)
    rows = trace.decision_row().nonzero().flatten()
    total = torch.zeros_like(trace.decision_row())
    for block in range(trace.depth):
        total += _block(trace, gradients, block, rows).clamp_(min=0)
    return over_patches(trace, total, share=False)


def _block(trace: Trace, gradients: Gradients, block: int, rows: Tensor) -> Tensor:
    """Σ_ih A[h,i,j] ⟨ReLU(∂y/∂T)[i,h], v[h,j]⟩ for every token j: (N,)."""
    pulled, values = exact(gradients.outputs[block]).clamp(min=0), exact(gradients.values[block])
    look = torch.zeros(trace.tokens, dtype=pulled.dtype, device=pulled.device)
    for some, (heads,) in trace.calls[block].chunks(rows):
        agreement = pulled[:, some] @ values.mT  # (H, rows, N)
        look += (heads * agreement).sum((0, 1))
    return look


def _own_feature(answer: Tensor) -> Tensor:
    weights = torch.nn.functional.normalize(answer, dim=-1).detach() ** 2
    return (weights * answer).sum()


METHOD = register(
    Method(
        name="daam",
        title="DAAM",
        meaning="Which patches hand the deciding token the values that this class is made of, "
        "summed over all blocks.",
        question="counted",
        class_specific=True,
        signed=False,
        needs=("attention", "decision", "gradients"),
        cost=lambda parameters, patches: 3,
        paper="Liao et al., Dynamic Accumulated Attention Map, Pattern Recognition 165, 2025",
        bibtex="""@article{liao2025dynamic,
  title={Dynamic Accumulated Attention Map for Interpreting Evolution of Decision-Making in
    Vision Transformer},
  author={Liao, Yi and Gao, Yongsheng and Zhang, Weichuan},
  journal={Pattern Recognition}, volume={165}, year={2025}}""",
        limits="Negative contributions are clipped by definition, twice. Without a head it "
        "explains the model's own feature instead of a class.",
        function=daam,
    )
)
