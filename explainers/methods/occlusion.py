"""Occlusion (Zeiler & Fergus, ECCV 2014) over the model's own patches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.hiding import FILLS, REMOVE, SCORE, scores_of, squares
from explainers.methods.ranks import spearman
from explainers.methods.scoring import Objective, Progress, Score, Scorer
from explainers.models.errors import ModelError
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace

_AGREE = 0.7
"""Rank correlation from which two ways of hiding are said to agree."""

_SAME_ANSWER = {torch.float64: 1e-8, torch.float32: 1e-3}
"""How far the answer to all tokens may lie from the model's own; half precision: 0.1."""


def occlusion(
    trace: Trace,
    objective: Objective,
    progress: Progress,
    *,
    window: int,
    fill: str,
    compare: str,
    score: Score,
) -> Finding:
    """score(photo) − score(photo with the patch hidden), for each patch (h, w); signed.

    With a window of several patches the grid is hidden square by square, and the patches of
    a square share its value. A fill paints the patch over; "remove" takes its token out, so
    that nothing takes its place. compare: hide the same squares the other way too (a fill
    beside removal, the mean fill beside a removal), report how far the two rank the patches
    alike (Spearman, figure ``agreement``), and say so.
    """
    parts = squares(trace.grid, window)  # (h, w), the number of each patch's square
    ways = [fill]
    if compare == "yes":
        ways.append("mean" if fill == REMOVE else REMOVE)
    if REMOVE in ways:
        support = trace.model.adapter.removal_support()
        if not support:
            raise ModelError(support.reason)
    total = len(ways) * (int(parts.max()) + 2)  # one look each, and one at the whole photo
    scorer = Scorer(trace.model, objective, progress, total, score)
    maps = [_drops(trace, scorer, parts, way).numpy() for way in ways]
    if len(maps) == 1:
        return Finding(maps[0])
    agreement = spearman(*maps)
    return Finding(maps[0], figures={"agreement": agreement}, notes=(_comparison(agreement),))


def _drops(trace: Trace, scorer: Scorer, parts: Tensor, fill: str) -> Tensor:
    """How far the score falls for each patch (h, w), hidden with its square."""
    hidden = torch.eye(int(parts.max()) + 1, dtype=torch.bool)  # one square each
    whole = scores_of(trace, scorer, torch.ones_like(hidden[:1]), parts, fill)
    if fill == REMOVE:
        _check_whole(trace, scorer, float(whole))
    return (whole - scores_of(trace, scorer, ~hidden, parts, fill))[parts]


def _check_whole(trace: Trace, scorer: Scorer, found: float) -> None:
    """With no token taken out, the answer is the model's own: else removal says nothing."""
    if trace.logits is None:
        return
    expected = float(scorer.objective.of(trace.logits, scorer.score))
    if abs(found - expected) > _SAME_ANSWER.get(trace.pixels.dtype, 0.1) * max(1, abs(expected)):
        raise ModelError(
            Sentence(
                "removal_differs",
                "With no token taken out the model scores {found}, where it answered {expected}: "
                "it does more than its forward pass shows. Fill the hidden patches instead.",
                found=f"{found:.4g}",
                expected=f"{expected:.4g}",
            )
        )


def _comparison(agreement: float) -> Sentence:
    if agreement >= _AGREE:
        return Sentence(
            "hiding_agrees",
            "Filling a patch and removing its token rank the patches alike here (rank correlation "
            "{agreement}).",
            agreement=f"{agreement:.2f}",
        )
    return Sentence(
        "hiding_disagrees",
        "Filling a patch and removing its token disagree here (rank correlation {agreement}): "
        "part of this map is the fill's own doing, or the missing token's.",
        agreement=f"{agreement:.2f}",
    )


def _cost(parameters: Mapping[str, Any], patches: int) -> float:
    once = -(-patches // parameters["window"] ** 2) + 1
    return once * (2 if parameters["compare"] == "yes" else 1)


METHOD = register(
    Method(
        name="occlusion",
        title="Occlusion",
        meaning="What happens without it: how far this class's probability falls (or rises) "
        "when a patch is hidden.",
        question="without",
        class_specific=True,
        signed=True,
        unit="fall of the {score}",
        needs=("class",),
        cost=_cost,
        paper="Zeiler & Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014",
        bibtex="""@inproceedings{zeiler2014visualizing,
  title={Visualizing and Understanding Convolutional Networks},
  author={Zeiler, Matthew D. and Fergus, Rob},
  booktitle={ECCV}, year={2014}}""",
        limits="One hidden patch is often made good by its neighbours, and the fill is a choice.",
        function=occlusion,
        parameters=(
            Parameter(
                "window", 1, "integer", "Side of the hidden squares, in patches.", low=1, high=8
            ),
            Parameter(
                "fill",
                "mean",
                "choice",
                "What a hidden patch is filled with, or whether its token is taken out instead.",
                choices=FILLS,
            ),
            Parameter(
                "compare",
                "no",
                "choice",
                "Whether to hide everything the other way too (token removal beside a fill), at "
                "twice the cost, and say whether the two agree.",
                choices=("no", "yes"),
            ),
            SCORE,
        ),
    )
)
