"""The error of this layer."""


class ModelError(ValueError):
    """A model could not be loaded, read or used; the message is one plain sentence."""
