"""Kernel SHAP (Lundberg & Lee, NeurIPS 2017) over patches: Shapley values by regression.

Captum's own class draws from the process's one generator, which other threads use too (so
does the data loader it hands its samples to), and states no error: the fit is done here.
"""

from __future__ import annotations

from math import comb

import torch
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.baselines import baseline_parameter
from explainers.methods.hiding import (
    SAMPLED_WINDOW,
    SCORE,
    sampled_squares,
    scores_of,
    spread_evenly,
    squares,
)
from explainers.methods.sampling import SEED, draws, typical, uncertainty
from explainers.methods.scoring import Objective, Progress, Score, Scorer
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace


def kernel_shap(
    trace: Trace,
    objective: Objective,
    progress: Progress,
    *,
    samples: int,
    window: int,
    fill: str,
    score: Score,
    seed: int,
) -> Finding:
    """The Shapley value of each patch (h, w) in the game "score with these patches visible".

    Signed; the values sum to score(photo) − score(all hidden), exactly. Sets of patches are
    drawn with the Shapley kernel's probabilities, each with its complement (Covert & Lee,
    AISTATS 2021); where the samples suffice for all sets, all are taken and the values are
    exact. With squares of several patches, a square's value is shared out over its patches.
    The figure ``standard_error`` is the root mean square of the squares' standard errors.
    """
    parts, exactly = _players(trace.grid, window, samples)
    count = int(parts.max()) + 1
    sets, weights = _all_pairs(count) if exactly else _drawn_pairs(count, samples // 2, seed)
    ends = torch.stack([torch.ones(count), torch.zeros(count)]).bool()
    scorer = Scorer(trace.model, objective, progress, 2 + 2 * len(sets), score)
    found = scores_of(trace, scorer, torch.cat([ends, sets, ~sets]), parts, fill)
    total = found[0] - found[1]
    halves = (found[2 : 2 + len(sets)] - found[2 + len(sets) :]) / 2
    values, errors = shapley(sets, weights, halves, total)
    error = 0.0 if exactly else typical(errors)
    figures = {"standard_error": error, "score_difference": abs(float(total))}
    note = _EXACT if exactly else uncertainty(values, error)
    return Finding(spread_evenly(values, parts).numpy(), figures=figures, notes=(note,))


def shapley(sets: Tensor, weights: Tensor, halves: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted least-squares fit whose values sum to ``total``, and its standard errors.

    sets: (m, P) bool; weights: (m,) of each set and of its complement; halves:
    (f(set) − f(complement))/2. A pair adds up to one equation, halves = (z − ½)·φ. Taking the
    even share total/P out of φ leaves a part that sums to 0, fitted without a constraint. The
    errors are those of draws: squared residuals over 1 − leverage (HC2).
    """
    players = sets.shape[1]
    z = sets.double() - 0.5
    even = z.mean(1, keepdim=True)
    root = weights.sqrt()
    rows = (z - even) * root[:, None]
    wanted = (halves - total * even[:, 0]) * root
    inverse = torch.linalg.pinv(rows)  # (P, m)
    fitted = inverse @ wanted
    fitted = fitted - fitted.mean()  # it sums to 0 but for rounding
    leverage = (rows * inverse.T).sum(1)
    missed = (wanted - rows @ fitted) / (1 - leverage).clamp_min(1e-9).sqrt()
    return fitted + total / players, (inverse.square() @ missed.square()).sqrt()


def _players(grid: tuple[int, int], window: int, samples: int) -> tuple[Tensor, bool]:
    """The squares that are hidden together, and whether all sets of them can be tried."""
    parts = squares(grid, max(window, 1))
    if not _all_fit(parts, samples):
        parts = sampled_squares(grid, window, samples)
    return parts, _all_fit(parts, samples)


def _all_fit(parts: Tensor, samples: int) -> bool:
    return 2 ** min(int(parts.max()) + 1, 64) - 2 <= samples


def _all_pairs(players: int) -> tuple[Tensor, Tensor]:
    """Every set but the full and the empty one, one of each pair of complements, with weights."""
    numbers = torch.arange(1, 2 ** (players - 1))
    sets = (numbers[:, None] >> torch.arange(players) & 1).bool()
    sizes = sets.sum(1).tolist()
    kernel = [(players - 1) / (comb(players, k) * k * (players - k)) for k in sizes]
    return sets, torch.tensor(kernel, dtype=torch.float64)


def _drawn_pairs(players: int, pairs: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sets drawn with the kernel's probabilities, all of weight 1.

    A size k is drawn with probability ∝ 1/(k (players − k)), then k patches at random.
    """
    generator = draws(seed)
    k = torch.arange(1, players, dtype=torch.float64)
    sizes = 1 + torch.multinomial(1 / (k * (players - k)), pairs, True, generator=generator)
    order = torch.rand(pairs, players, generator=generator).argsort(1).argsort(1)
    return order < sizes[:, None], torch.ones(pairs, dtype=torch.float64)


_EXACT = Sentence(
    "shapley_exact",
    "All sets of patches were tried: these are the exact Shapley values.",
)

METHOD = register(
    Method(
        name="kernel_shap",
        title="Kernel SHAP",
        meaning="What happens without it: each patch's fair share of this class's probability, "
        "averaged over all orders in which the patches could be uncovered; together they make "
        "up the whole difference to a photo with everything hidden.",
        question="without",
        class_specific=True,
        signed=True,
        unit="{score}",
        needs=("class",),
        cost=lambda parameters, patches: min(parameters["samples"], 2.0 ** min(patches, 64)) + 2,
        paper="Lundberg & Lee, A Unified Approach to Interpreting Model Predictions, NeurIPS 2017",
        bibtex="""@inproceedings{lundberg2017unified,
  title={A Unified Approach to Interpreting Model Predictions},
  author={Lundberg, Scott M. and Lee, Su-In},
  booktitle={NeurIPS}, year={2017}}
@inproceedings{covert2021improving,
  title={Improving KernelSHAP: Practical Shapley Value Estimation Using Linear Regression},
  author={Covert, Ian and Lee, Su-In},
  booktitle={AISTATS}, year={2021}}""",
        limits="With many patches it is a rough estimate, with the standard error it states; most "
        "of the photos it asks about are half hidden, unlike any the model was trained on.",
        function=kernel_shap,
        parameters=(
            Parameter(
                "samples",
                1024,
                "integer",
                "How many sets of patches are tried; more are more exact.",
                low=8,
                high=20_000,
            ),
            SAMPLED_WINDOW,
            baseline_parameter("fill", "mean", "What hidden patches are filled with."),
            SCORE,
            SEED,
        ),
    )
)
