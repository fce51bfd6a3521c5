"""ViTScope: what a Vision Transformer looked at, why it answered so, how far to trust it."""

import explainers.starting  # noqa: F401  (first, because the others take seconds)
from explainers.heatmap import HeatMap
from explainers.image import Photo, PhotoError, load_photo
from explainers.measures import measure, sanity
from explainers.methods import Cancelled, explain
from explainers.models.errors import ModelError
from explainers.models.loading import load_model
from explainers.models.vision_model import VisionModel
from explainers.models.wrapping import wrap_model
from explainers.registry import methods
from explainers.version import __version__

__all__ = [
    "Cancelled",
    "HeatMap",
    "ModelError",
    "Photo",
    "PhotoError",
    "VisionModel",
    "__version__",
    "explain",
    "load_model",
    "load_photo",
    "measure",
    "methods",
    "sanity",
    "wrap_model",
]
