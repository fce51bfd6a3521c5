"""What methods that draw at random share: their seed, and how sure they say they are."""

from __future__ import annotations

import torch
from torch import Tensor

from explainers.registry import Parameter
from explainers.sentence import Sentence

SEED = Parameter("seed", 0, "integer", "Which random numbers are drawn.", low=0, high=2**31 - 1)


def draws(seed: int) -> torch.Generator:
    """A generator of one's own, on the CPU: a seed means the same draws everywhere."""
    return torch.Generator().manual_seed(seed)


def typical(errors: Tensor) -> float:
    """One figure for the standard errors of a whole map: their root mean square."""
    return float(errors.square().mean().sqrt())


def uncertainty(values: Tensor, error: float) -> Sentence:
    """How far other random draws would move the map, beside its strongest value."""
    strongest = float(values.abs().max())
    return Sentence(
        "sampling_error",
        "Each value is a random estimate, uncertain by about ± {error} (standard error): "
        "{percent} % of the strongest value in the map.",
        error=f"{error:.2g}",
        percent=f"{100 * error / strongest:.0f}" if strongest else "100",
    )
