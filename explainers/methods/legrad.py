"""LeGrad (Bousselham et al., ICCV 2025): what each block's attention could do for the class."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.attention_call import AttentionCall, exact
from explainers.capture import Capture, stored_as
from explainers.gradients import class_score
from explainers.heatmap import Finding
from explainers.methods.attention import over_patches
from explainers.methods.scoring import Objective, Progress
from explainers.registry import Method, register
from explainers.trace import Trace

_ROWS = 256  # of the gradient of attention at once


def legrad(trace: Trace, objective: Objective, progress: Progress) -> Finding:
    """Mean over blocks l of E_h,i[(∂s^l/∂A^l)⁺]; s^l = the head's answer to block l's tokens.

    The head reads the mean of all the block's output tokens (an attention pool reads the
    tokens, and E^l is its latent's row). s^l knows no later block, so each gradient reaches
    back through one block only. A itself is never multiplied in.
    """
    adapter, depth = trace.model.adapter, trace.depth
    score = class_score(objective.target, objective.against)
    progress(0, depth)
    capture = Capture(adapter, keep=("input", "output"), values=True)
    total = exact(trace.pixels).new_zeros(trace.tokens)
    with torch.enable_grad():
        pixels = trace.pixels.detach().clone().requires_grad_()
        with capture:
            trace.model.logits(pixels)
        for block in range(depth):
            progress(block, depth)
            stream = capture.tensors[stored_as("output", block, depth)]
            pool = Capture(adapter, values=True)
            with pool:
                answer = score(adapter.read_out(stream))
            call = pool.calls[0] if trace.pool is not None else capture.calls[block]
            total += trace.pooled_row(_mean_positive(call, answer))
    return over_patches(trace, total / depth, share=False)


def _mean_positive(call: AttentionCall, answer: Tensor) -> Tensor:
    """E_h,i[(∂answer/∂A)⁺] of one photo's call: (N,)."""
    (gradient,) = torch.autograd.grad(answer, call.output, retain_graph=True)  # type: ignore[arg-type]
    gradient, values = exact(gradient), exact(call.v[0]).mT  # type: ignore[index]
    rows = gradient.shape[2]
    parts = [
        (gradient[0, :, i : i + _ROWS] @ values).clamp_(min=0).sum((0, 1))
        for i in range(0, rows, _ROWS)
    ]
    return torch.stack(parts).sum(0) / (gradient.shape[1] * rows)


METHOD = register(
    Method(
        name="legrad",
        title="LeGrad",
        meaning="Where more attention, in any block, would raise this class's score if the head "
        "read that block directly.",
        question="counted",
        class_specific=True,
        signed=False,
        unit="∂ logit / ∂ attention",
        needs=("attention", "class", "gradients", "readout", "features"),
        cost=lambda parameters, patches: 3,
        paper="Bousselham et al., LeGrad: An Explainability Method for Vision Transformers via "
        "Feature Formation Sensitivity, ICCV 2025",
        bibtex="""@inproceedings{bousselham2025legrad,
  title={LeGrad: An Explainability Method for Vision Transformers via Feature Formation
    Sensitivity},
  author={Bousselham, Walid and Boggust, Angie and Chaybouti, Sofian and Strobelt, Hendrik and
    Kuehne, Hilde},
  booktitle={ICCV}, year={2025}}""",
        limits="Negative contributions are clipped by definition. It shows what attention could "
        "do, not what it did, and early blocks are read by a head made for the last.",
        function=legrad,
    )
)
