"""Value-weighted attention (Kobayashi et al., EMNLP 2020): attention times what it carries."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.attention import over_patches
from explainers.methods.rollout import one_down
from explainers.methods.scoring import Progress
from explainers.models.errors import ModelError
from explainers.registry import Method, Parameter, register
from explainers.trace import Trace


def value_norm(
    trace: Trace, objective: None, progress: Progress, *, block: int, head: int | str, over: str
) -> Finding:
    """The decision row of m_ij = ‖Σ_h A_ij^h v_j^h W_O^h‖ of one block, or rolled out.

    head: all of them together, or ‖A_ij v_j W_O‖ of one. Rolled out, m takes the place of
    attention in rollout's general step.
    """
    progress(0, 1)
    look = trace.decision_row()
    if over == "rollout":
        if not (support := trace.model.adapter.chain_support()):
            raise ModelError(support.reason)
        for layer in range(trace.depth - 1, -1, -1):
            look = one_down(look, norm_rows(trace, layer, head, look.nonzero().flatten()))
        return over_patches(trace, look)
    total = torch.zeros_like(look)
    for rows, norms in norm_rows(trace, block, head, look.nonzero().flatten()):
        total += look[rows] @ norms
    return over_patches(trace, total, share=False)


def norm_rows(
    trace: Trace, block: int, head: int | str, rows: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields (row indices, m (rows, N)) a chunk at a time.

    ‖Σ_h a^h u^h‖² = Σ_hk a^h a^k ⟨u^h, u^k⟩, so only the products of what each token would
    hand on by each head are needed: (N, H, H), never a vector for each pair of tokens.
    """
    values = trace.values(block).to(trace.decision_row().dtype)  # (H, N, D)
    weight = trace.model.adapter.output_weight(block).to(values.dtype)
    weight = weight.unflatten(1, (values.shape[0], -1))  # (W, H, D)
    carried = torch.einsum("hnd,whd->nhw", values, weight)  # what each head hands on, (N, H, W)
    products = carried @ carried.mT  # (N, H, H)
    one = head if isinstance(head, int) else None
    for some, (heads,) in trace.calls[block].chunks(rows, one):
        if one is not None:
            yield some, heads[0] * products[:, one, one].clamp(min=0).sqrt()
        else:
            squared = torch.einsum("hrn,nhk,krn->rn", heads, products, heads)
            yield some, squared.clamp_(min=0).sqrt()


METHOD = register(
    Method(
        name="value_norm",
        title="Value-weighted attention",
        meaning="Where the token that decides gets something from: its attention in one block, "
        "weighted by how much the patch it looks at has to hand on.",
        question="look",
        class_specific=False,
        signed=False,
        unit="attention × length of what is handed on",
        needs=("attention", "decision", "merge"),
        cost=lambda parameters, patches: 1,
        paper="Kobayashi et al., Attention is Not Only a Weight, EMNLP 2020",
        bibtex="""@inproceedings{kobayashi2020attention,
  title={Attention is Not Only a Weight: Analyzing Transformers with Vector Norms},
  author={Kobayashi, Goro and Kuribayashi, Tatsuki and Yokoi, Sho and Inui, Kentaro},
  booktitle={EMNLP}, year={2020}}""",
        limits="It does not depend on the class: a patch can hand on much that no one needs.",
        function=value_norm,
        parameters=(
            Parameter("block", -1, "block", "Which block, counted from 0; -1 is the last."),
            Parameter("head", "all", "head", "One head, or all together.", choices=("all",)),
            Parameter(
                "over",
                "block",
                "choice",
                "That block alone, or rolled out over all blocks.",
                choices=("block", "rollout"),
            ),
        ),
    )
)
