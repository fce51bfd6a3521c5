"""LIME solves its normal equations, and says when its imitation is poor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explainers.methods.lime import linear_fit
from tests.closed_forms import closed
from tests.perturbation import close, hide, keys, run, slow_score, traced


@pytest.mark.parametrize(
    ("variant", "score", "width", "ridge", "window"),
    [
        ("plain", "probability", 0.25, 1.0, 0),
        ("rectangle", "logit", 0.5, 0.3, 1),
        ("average", "probability", 0.1, 0.0, 1),
        ("plain", "logit", 0.25, 1.0, 2),
    ],
)
def test_lime_solves_its_normal_equations(
    variant: str, score: str, width: float, ridge: float, window: int
) -> None:
    trace = traced(variant)
    rows, columns = trace.grid
    side = window or 1
    parts: dict[tuple[int, int], list[int]] = {}
    for i in range(rows):
        for j in range(columns):
            parts.setdefault((i // side, j // side), []).append(i * columns + j)
    players = list(parts.values())
    generator = torch.Generator().manual_seed(9)
    shown = (torch.rand(80, len(players), generator=generator) < 0.5).numpy()
    shown[0] = True
    normal = np.zeros((len(players) + 1,) * 2)
    right = np.zeros(len(players) + 1)
    samples = []
    for z in shown:
        hidden = {
            patch for part, there in zip(players, z, strict=True) if not there for patch in part
        }
        y = slow_score(trace, hide(trace, hidden, "grey"), score)
        distance = 1 - z.sum() / (np.sqrt(z.sum()) * np.sqrt(len(z))) if z.any() else 1
        weight = np.exp(-(distance**2) / (2 * width**2))
        row = np.append(z.astype(float), 1)
        normal += weight * np.outer(row, row)
        right += weight * y * row
        samples.append((row, y, weight))
    normal[:-1, :-1] += ridge * np.eye(len(players))  # the intercept is not penalised
    solution = np.linalg.solve(normal, right)
    heat = run(
        "lime",
        trace,
        samples=80,
        score=score,
        width=width,
        ridge=ridge,
        window=window,
        fill="grey",
        seed=9,
    )
    for part, coefficient in zip(players, solution, strict=False):
        close(heat.values.ravel()[part], coefficient / len(part), 1e-9)
    mean = sum(w * y for _, y, w in samples) / sum(w for *_, w in samples)
    missed = sum(w * (y - row @ solution) ** 2 for row, y, w in samples)
    spread = sum(w * (y - mean) ** 2 for _, y, w in samples)
    assert heat.figures["fit"] == pytest.approx(1 - missed / spread)
    assert ("lime_poor_fit" in keys(heat)) == (heat.figures["fit"] < 0.5)


def test_a_poor_imitation_is_said() -> None:
    shown = torch.rand(200, 4, generator=torch.Generator().manual_seed(0)) < 0.5
    parity = (shown.sum(1) % 2).double()  # no sum over patches imitates this
    _, fit = linear_fit(shown, parity, torch.ones(200, dtype=torch.float64), 1.0)
    assert fit < 0.1
    values, fit = linear_fit(shown, torch.full((200,), 2.0).double(), torch.ones(200).double(), 1.0)
    close(values, np.zeros(4))
    assert fit == 1
    trace = closed(squared=True)
    poor = run("lime", trace, ridge=1000.0, score="logit")
    assert keys(poor) == ["lime_poor_fit"]
