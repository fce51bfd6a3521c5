"""Attention flow (Abnar & Zuidema, ACL 2020): how much attention can reach each patch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.attention import fused_rows
from explainers.methods.flow_network import Network
from explainers.methods.scoring import Progress
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace

MOST_CELLS = 64
_SATURATED = 90.0  # per cent


def attention_flow(
    trace: Trace, objective: None, progress: Progress, *, start_block: int, row: int | None
) -> Finding:
    """The largest flow from the decision row to each cell through pipes as wide as attention.

    Â = ½ mean over heads of A + ½ I of each block holds the pipes' capacities. Attention is
    pooled to at most 64 cells of patches first (keys summed, queries averaged); prefix tokens
    stay. Several deciding tokens feed on one source in their shares. The flows of all cells
    and prefix tokens are divided by their sum; the patches of a cell share its value (h, w).
    The figure ``flow_at_bound`` is the share of cells, in per cent, that get all that the
    lowest block's pipes into them can carry, or 1, the whole of what is sent.
    """
    cells, cell_of = cells_of(trace)
    blocks = range(trace.depth - 1, start_block - 1, -1)
    n = trace.prefix + int(cells.max()) + 1
    total = len(blocks) + n
    matrices = []
    for done, block in enumerate(blocks):
        progress(done, total)
        matrices.append((pooled(trace, block, cell_of) + np.eye(n)) / 2)
    start = np.bincount(cell_of, trace.decision_row(row).cpu().double().numpy(), minlength=n)
    network = Network.of(matrices, start)
    flows = np.zeros(n)
    for node in range(n):
        progress(len(blocks) + node, total)
        flows[node] = network.flow_into(node)
    bounds = np.minimum(1, matrices[-1].sum(0))
    at_bound = 100 * float((flows >= bounds - 1e-9)[trace.prefix :].mean())
    look = flows / flows.sum()
    return Finding(
        look[trace.prefix :][cells],
        prefix_share=float(look[: trace.prefix].sum()),
        figures={"flow_at_bound": at_bound},
        notes=_notes(trace, cells, at_bound),
    )


def cells_of(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """The cell of each patch (h, w), and of each token (N,): there the prefix tokens come first.

    Cells are as square and as equal as the grid allows, and as small as their number admits.
    """
    rows, columns = trace.grid
    side = 1
    while -(-rows // side) * -(-columns // side) > MOST_CELLS:
        side += 1
    down, across = -(-rows // side), -(-columns // side)
    row, column = np.arange(rows) * down // rows, np.arange(columns) * across // columns
    cells = row[:, None] * across + column
    return cells, np.concatenate([np.arange(trace.prefix), trace.prefix + cells.ravel()])


def pooled(trace: Trace, block: int, cell_of: np.ndarray) -> np.ndarray:
    """A block's mean attention over heads between cells (n, n), rows summing to 1; float64."""
    place = torch.as_tensor(cell_of)
    n = int(place.max()) + 1
    member = torch.nn.functional.one_hot(place, n)  # (N, n)
    sums = torch.zeros(n, n, dtype=torch.float64)
    every = torch.arange(trace.tokens, device=trace.pixels.device)
    for rows, fused in fused_rows(trace, block, "mean", every):
        keys = fused @ member.to(fused)  # (rows, n)
        sums.index_add_(0, place[rows.cpu()], keys.cpu().double())
    averages: Tensor = sums / member.sum(0)[:, None]
    return averages.numpy()


def _notes(trace: Trace, cells: np.ndarray, at_bound: float) -> tuple[Sentence, ...]:
    notes = []
    if at_bound > _SATURATED:
        notes.append(
            Sentence(
                "flow_saturated",
                "The flow is saturated: {share} % of the cells get all that they can take in, so "
                "the map no longer says where the model looked. Start at a higher block.",
                share=f"{at_bound:.0f}",
            )
        )
    if cells.max() + 1 < cells.size:
        notes.append(
            Sentence(
                "flow_pooled",
                "The {rows}×{columns} patches were joined to {down}×{across} cells before the "
                "flow was computed; the patches of a cell share its value.",
                rows=trace.grid[0],
                columns=trace.grid[1],
                down=len(np.unique(cells[:, 0])),
                across=len(np.unique(cells[0])),
            )
        )
    return tuple(notes)


METHOD = register(
    Method(
        name="attention_flow",
        title="Attention flow",
        meaning="How much attention can reach each place at most, if every block's attention is "
        "a network of pipes and the token that decides is the source.",
        question="look",
        class_specific=False,
        signed=False,
        unit="flow of attention",
        needs=("attention", "decision", "chain"),
        cost=lambda parameters, patches: 2,  # no pass of the model, but as long as two
        paper="Abnar & Zuidema, Quantifying Attention Flow in Transformers, ACL 2020",
        bibtex="""@inproceedings{abnar2020quantifying,
  title={Quantifying Attention Flow in Transformers},
  author={Abnar, Samira and Zuidema, Willem},
  booktitle={ACL}, year={2020}}""",
        limits="It does not depend on the class and ignores values and MLPs. Over more than "
        "three or four blocks nearly every place gets all it can take in, and the map tends "
        "towards an even one.",
        function=attention_flow,
        parameters=(
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
