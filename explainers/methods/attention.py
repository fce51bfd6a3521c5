"""Attention of one block: where the deciding token (or any other) looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.scoring import Progress
from explainers.registry import Method, Parameter, register
from explainers.trace import Trace


def attention(
    trace: Trace,
    objective: None,
    progress: Progress,
    *,
    block: int,
    head: int | str,
    row: int | None,
) -> Finding:
    """The decision row of one block's attention, over the patches.

    Heads are fused by mean or maximum, or one is taken. Where several rows feed the head
    (DIST, average pooling) the rows are weighted as the model weighs them.
    """
    weights = trace.look(block, row)  # (N,)
    look = weights.new_zeros(trace.calls[block].columns_count)
    for rows, fused in fused_rows(trace, block, head, weights.nonzero().flatten()):
        look += weights[rows] @ fused
    return over_patches(trace, look, grid=trace.block_grids(block)[1])


def fused_rows(
    trace: Trace, block: int, fusion: int | str, rows: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields (row indices, their attention fused over heads (rows, N)), a chunk at a time.

    Each chunk is overwritten by the next one.

    fusion: "mean", "max" or "min" over heads, or the number of one head.
    """
    head = fusion if isinstance(fusion, int) else None
    fuse: dict[int | str, Callable[..., Tensor]]
    fuse = {"mean": torch.mean, "max": torch.amax, "min": torch.amin}
    for chunk, (heads,) in trace.calls[block].chunks(rows, head):  # heads: (H, rows, N)
        yield chunk, heads[0] if isinstance(fusion, int) else fuse[fusion](heads, 0)


def over_patches(
    trace: Trace, look: Tensor, share: bool = True, grid: tuple[int, int] | None = None
) -> Finding:
    """A row over tokens (N,) as a finding: the patches' grid, and the share on the prefix.

    share: whether the row is a distribution, so that the prefix tokens' part means something.
    grid: the row's own, in a model of several grids.
    """
    prefix = trace.prefix
    return Finding(
        values=look[prefix:].reshape(grid or trace.grid).cpu().numpy(),
        prefix_share=float(look[:prefix].sum()) if share else None,
    )


METHOD = register(
    Method(
        name="attention",
        title="Attention",
        meaning="Where the token that decides looks in one block: how it shares out its "
        "attention over the patches.",
        question="look",
        class_specific=False,
        signed=False,
        unit="share of attention",
        needs=("attention", "look"),
        cost=lambda parameters, patches: 0,
        paper="Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021",
        bibtex="""@inproceedings{dosovitskiy2021image,
  title={An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale},
  author={Dosovitskiy, Alexey and Beyer, Lucas and Kolesnikov, Alexander and Weissenborn, Dirk
    and Zhai, Xiaohua and Unterthiner, Thomas and Dehghani, Mostafa and Minderer, Matthias and
    Heigold, Georg and Gelly, Sylvain and Uszkoreit, Jakob and Houlsby, Neil},
  booktitle={ICLR}, year={2021}}""",
        limits="Attention is not explanation: a patch can be looked at and not used. One block "
        "sees tokens that earlier blocks have already mixed.",
        function=attention,
        parameters=(
            Parameter("block", -1, "block", "Which block, counted from 0; -1 is the last."),
            Parameter(
                "head",
                "mean",
                "head",
                "One head, or the mean or maximum over all heads.",
                choices=("mean", "max"),
            ),
            Parameter(
                "row",
                None,
                "token",
                "Whose attention: empty for the token(s) that decide, or a token's number.",
            ),
        ),
    )
)
