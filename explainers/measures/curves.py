"""Deletion and insertion curves (Petsiuk et al., RISE, BMVC 2018, arXiv 1806.07421)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from explainers.methods.hiding import scores_of
from explainers.methods.scoring import Objective, Progress, Scorer
from explainers.trace import Trace

STEPS = 16
"""Steps from the whole photo to none of it, each as near a sixteenth of the patches as can be."""

MARK = 3
"""The step that one sentence tells of: about a fifth of the patches (37 of 196)."""

FILL = "mean"
"""What a hidden patch is filled with: the photo's own mean colour."""

Kind = Literal["deletion", "insertion"]


@dataclass(frozen=True, eq=False)
class Curve:
    """The class's probability while patches are deleted, or inserted, one share after another.

    shares: of the patches deleted (inserted) so far, from 0 to 1; values: probabilities.
    """

    shares: np.ndarray
    values: np.ndarray

    @property
    def area(self) -> float:
        """Trapezoids over the shares 0..1: the mean probability along the way."""
        return float(np.trapezoid(self.values, self.shares))

    def backwards(self) -> Curve:
        """The same pictures the other way: a deletion of an order inserts its reverse."""
        return Curve(1 - self.shares[::-1], self.values[::-1])


def step_counts(patches: int, kind: Kind) -> np.ndarray:
    """How many patches have been deleted (inserted) at each step, from 0 to all of them.

    A photo of fewer than 16 patches has fewer steps.
    """
    deleted = np.unique(np.rint(np.linspace(0, patches, STEPS + 1)).astype(int))
    return deleted if kind == "deletion" else patches - deleted[::-1]


def visible(order: np.ndarray, counts: np.ndarray, kind: Kind) -> np.ndarray:
    """Which patches show at each count: bool (counts, patches)."""
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    inserted = place < counts[:, None]
    return inserted if kind == "insertion" else ~inserted


def probabilities(
    trace: Trace, target: int, shown: np.ndarray, progress: Progress, done: int, total: int
) -> np.ndarray:
    """The class's probability (pictures,) for the photo with only some patches showing.

    shown: bool (pictures, patches). done of total pictures have been looked at before.
    """

    def onwards(now: int, _: int) -> None:
        progress(done + now, total)

    scorer = Scorer(trace.model, Objective(target), onwards, len(shown), "probability")
    patches = torch.arange(shown.shape[1]).reshape(trace.grid)
    with torch.inference_mode(False), torch.no_grad():
        found = scores_of(trace, scorer, torch.from_numpy(shown), patches, FILL)
    progress(done + len(shown), total)
    return found.numpy()
