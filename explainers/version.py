"""The library's version, as it stands in every map's provenance."""

__version__ = "0.1.0"
