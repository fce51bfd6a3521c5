"""Attention rollout (Abnar & Zuidema, ACL 2020), as a recursion on one row."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.attention import fused_rows, over_patches
from explainers.methods.scoring import Progress
from explainers.models.errors import ModelError
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace

MAX_DISCARD_TOKENS = 8192
"""Discarding ranks a block's whole N×N matrix, which has to be held: 256 MB at this size."""


def rollout(
    trace: Trace,
    objective: None,
    progress: Progress,
    *,
    fusion: str,
    discard: float,
    start_block: int,
    row: int | None,
) -> Finding:
    """The decision row of Π_l (Ā_l + I)/2, from the top block down; no matrix is kept.

    Ā fuses the heads by mean, max or min. discard drops the lowest share of each block's
    fused matrix, entries on prefix tokens excepted; rows are then normalised again.
    """
    if discard and trace.tokens > MAX_DISCARD_TOKENS:
        raise ModelError(
            Sentence(
                "discard_tokens",
                "Discarding ranks a whole attention matrix, which is offered up to {limit} "
                "tokens; this photo has {tokens}. Set discard to 0.",
                limit=MAX_DISCARD_TOKENS,
                tokens=trace.tokens,
            )
        )
    look = trace.decision_row(row)
    for block in range(trace.depth - 1, start_block - 1, -1):
        if discard:
            matrix = torch.cat([m for _, m in fused_rows(trace, block, fusion, _all(look))])
            look = step(look, _all(look), _discard(matrix, discard, trace.prefix))
        else:
            look = one_down(look, fused_rows(trace, block, fusion, look.nonzero().flatten()))
    return over_patches(trace, look)


def one_down(look: Tensor, pieces: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """The look (N,) one block down, from that block's fused rows in pieces."""
    following = torch.zeros_like(look)
    for rows, fused in pieces:
        following += step(look, rows, fused)
    return following


def step(look: Tensor, rows: Tensor, fused: Tensor) -> Tensor:
    """One block down: Σ_i r_i (m_i + e_i)/(1 + Σ_j m_ij) over the given rows i.

    look r: (N,); fused m: (rows, N), not negative. Dividing by the row's sum keeps each row
    of the rolled-out matrix summing to 1; the identity is the residual connection.
    """
    share = look[rows] / (1 + fused.sum(1))
    moved = share @ fused
    moved[rows] += share
    return moved


def _discard(matrix: Tensor, share: float, prefix: int) -> Tensor:
    """Zero the lowest ``share`` of all entries, those in prefix columns excepted.

    Among equal entries the first in reading order go, so the number dropped is exact.
    """
    count = int(share * matrix.numel())
    if not count:
        return matrix
    lowest = matrix.flatten().argsort(stable=True)[:count]
    columns = lowest % matrix.shape[1]
    matrix.view(-1)[lowest[columns >= prefix]] = 0
    return matrix


def _all(look: Tensor) -> Tensor:
    return torch.arange(len(look), device=look.device)


METHOD = register(
    Method(
        name="rollout",
        title="Attention rollout",
        meaning="How attention adds up over all blocks: which patches can have flowed into the "
        "token that decides, the residual connections included.",
        question="look",
        class_specific=False,
        signed=False,
        unit="share of attention, rolled out",
        needs=("attention", "decision", "chain"),
        cost=lambda parameters, patches: 0,
        paper="Abnar & Zuidema, Quantifying Attention Flow in Transformers, ACL 2020",
        bibtex="""@inproceedings{abnar2020quantifying,
  title={Quantifying Attention Flow in Transformers},
  author={Abnar, Samira and Zuidema, Willem},
  booktitle={ACL}, year={2020}}""",
        limits="It does not depend on the class and ignores values and MLPs; over many blocks "
        "it tends towards an even map.",
        function=rollout,
        parameters=(
            Parameter(
                "fusion",
                "mean",
                "choice",
                "How the heads of a block are joined.",
                choices=("mean", "max", "min"),
            ),
            Parameter(
                "discard",
                0.0,
                "number",
                "Share of each block's smallest attention entries that is dropped.",
                low=0.0,
                high=0.99,
            ),
            Parameter("start_block", 0, "block", "The lowest block taken in; 0 takes them all."),
            Parameter(
                "row",
                None,
                "token",
                "Whose look: empty for the token(s) that decide, or a token's number.",
            ),
        ),
    )
)
