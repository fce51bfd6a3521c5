"""Length of each patch token, and the tokens that are far too long (Darcet et al., 2024)."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.heatmap import Finding
from explainers.methods.patch_features import BLOCK, token_features
from explainers.methods.scoring import Progress
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace

_ROBUST = 1.4826
"""The standard deviation of normal numbers is so many times their median absolute deviation."""

_LEAST = 1.5
"""An outlier is at least so many times as long as the median: tokens that are nearly all of one
length have no outliers, however small their deviations are."""


def token_norm(
    trace: Trace,
    objective: None,
    progress: Progress,
    *,
    block: int,
    mask: str,
    deviations: float,
) -> Finding:
    """‖x‖₂ of each patch token x of the stream leaving a block: (h, w).

    Outliers, the artifacts that models keep global information in, are counted in the figure
    ``outlier_share_percent`` (of the patches; ``outlier_threshold`` is the length above which a
    token is one). mask "outliers": they are zero, and the rest is divided by its sum.
    """
    tokens = token_features(trace, progress, block, "output")[trace.prefix :]
    norms = tokens.norm(dim=1)  # (h·w,)
    threshold = outlier_threshold(norms, deviations)
    outliers = norms > threshold
    count = int(outliers.sum())
    notes: tuple[Sentence, ...] = ()
    if count:
        notes = (
            Sentence(
                "token_outliers",
                "{count} of {patches} patch tokens are far longer than the others (over "
                "{threshold}). Such artifacts often hold information on the whole photo instead "
                "of their own patch, and other maps may show them as bright spots.",
                count=count,
                patches=len(norms),
                threshold=f"{threshold:.3g}",
            ),
        )
    if mask == "outliers":
        norms = norms.masked_fill(outliers, 0)
        norms = norms / norms.sum().clamp_min(torch.finfo(norms.dtype).tiny)
    return Finding(
        norms.reshape(trace.grid).numpy(),
        figures={
            "outlier_share_percent": 100 * count / len(outliers),
            "outlier_threshold": threshold,
        },
        notes=notes,
    )


def outlier_threshold(norms: Tensor, deviations: float) -> float:
    """The length above which a token is an outlier.

    The median plus so many robust standard deviations, and no less than 1.5 medians.
    """
    median = norms.median()
    deviation = _ROBUST * (norms - median).abs().median()
    return float(torch.maximum(median + deviations * deviation, _LEAST * median))


METHOD = register(
    Method(
        name="token_norm",
        title="Token lengths",
        meaning="How long each patch's feature vector is when it leaves a block. A few that are "
        "far longer than the rest are artifacts: the model keeps other information there.",
        question="sees",
        class_specific=False,
        signed=False,
        unit="length of the token",
        needs=("features",),
        cost=lambda parameters, patches: 1,
        paper="Darcet et al., Vision Transformers Need Registers, ICLR 2024",
        bibtex="""@inproceedings{darcet2024vision,
  title={Vision Transformers Need Registers},
  author={Darcet, Timoth{\\'e}e and Oquab, Maxime and Mairal, Julien and Bojanowski, Piotr},
  booktitle={ICLR}, year={2024}}""",
        limits="A long token is not an important one. What counts as an outlier is a rule of "
        "thumb, and the masked map hides what the model really has there.",
        function=token_norm,
        parameters=(
            BLOCK,
            Parameter(
                "mask",
                "none",
                "choice",
                "Show all tokens, or hide the outliers and let the rest add up to 1.",
                choices=("none", "outliers"),
            ),
            Parameter(
                "deviations",
                6.0,
                "number",
                "So many robust standard deviations above the median a token is an outlier.",
                low=1.0,
                high=50.0,
            ),
        ),
    )
)
