"""Why a whole model cannot serve some method, whatever its family."""

from __future__ import annotations

from explainers.registry import Support
from explainers.sentence import Sentence

TRAINING = Support(
    False,
    Sentence(
        "model_training",
        "The model is in training mode, where dropout makes every answer another; call "
        "model.eval() first.",
    ),
)
TIED = Support(
    False,
    Sentence(
        "tied_weights",
        "A norm's or projection's weight is shared between parts of this model, so which tensor "
        "belongs to which part cannot be told; give each part its own copy.",
    ),
)
INFERENCE = Support(
    False,
    Sentence(
        "inference_weights",
        "This model's weights were made inside torch.inference_mode(), where torch keeps no "
        "gradients; build or load it outside of that.",
    ),
)
NO_HALF = Support(
    False,
    Sentence(
        "no_half",
        "This method divides by sums that come near 0: rounding the weights to half precision "
        "is enough to make another map. Load the model in float32.",
    ),
)
NO_CLASSES = Support(
    False,
    Sentence(
        "no_head",
        "This model has no classification head (it answers with features), so there is no "
        "class to explain.",
    ),
)
