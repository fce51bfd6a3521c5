"""The error of this package."""


class TrainingError(ValueError):
    """Data, settings or a checkpoint do not do; the message is one plain sentence."""
