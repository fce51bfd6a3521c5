"""What a class-specific method explains: a class's logit or probability, maybe a contrast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from explainers.attention_call import exact
from explainers.models.vision_model import VisionModel

Progress = Callable[[int, int], None]
"""Called as progress(done, total) at every model call; may raise `Cancelled` to stop."""

Score = Literal["logit", "probability"]


@dataclass(frozen=True)
class Objective:
    """The class explained and, for "why A and not B", the class it is held against."""

    target: int
    against: int | None = None

    def of(self, logits: Tensor, score: Score) -> Tensor:
        """The number explained for each photo of a batch: (B, classes) → (B,)."""
        answer = logits.softmax(-1) if score == "probability" else logits
        value = answer[:, self.target]
        return value if self.against is None else value - answer[:, self.against]


@dataclass
class Scorer:
    """pixels (B, 3, h, w) → the explained number (B,), reporting each photo it runs.

    keep: (B, n), the patches whose tokens the model is given, where not all of them. Half
    precision is the model's alone: pixels may be finer, and the number is float32.
    """

    model: VisionModel
    objective: Objective
    progress: Progress
    total: int
    score: Score = "logit"
    done: int = field(default=0, init=False)

    def __call__(self, pixels: Tensor, keep: Tensor | None = None) -> Tensor:
        self.progress(min(self.done, self.total), self.total)
        logits = self.model.logits(pixels.to(self.model.dtype), keep)
        value = self.objective.of(exact(logits), self.score)
        self.done += len(value)
        return value
