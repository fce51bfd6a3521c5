"""The one place that imports OpenCV, and says in a sentence what is missing when it cannot."""

from __future__ import annotations

from types import ModuleType

from explainers.sentence import Sentence


class DrawingError(ValueError):
    """A picture cannot be drawn on this machine; the message says what to install."""


def opencv() -> ModuleType:
    """The ``cv2`` module. Imported on first use, so everything but drawing works without it."""
    try:
        import cv2
    except ImportError as error:
        raise DrawingError(
            Sentence(
                "opencv_missing",
                "OpenCV is needed to draw on a photo but could not be loaded ({reason}). "
                "Install its system libraries with `apt-get install libgl1 libglib2.0-0`, or "
                "the build that needs none with `pip install opencv-python-headless`.",
                reason=str(error),
            )
        ) from error
    module: ModuleType = cv2
    return module
