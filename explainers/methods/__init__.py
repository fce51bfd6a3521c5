"""Explanation methods, one a file; importing this package registers them in page order."""

from explainers.methods import (  # noqa: F401 - imported to be registered
    attention,
    input_x_gradient,
    integrated_gradients,
    occlusion,
    rollout,
    saliency,
    smoothgrad,
)
from explainers.methods.explain import Cancelled, explain

__all__ = ["Cancelled", "explain"]
