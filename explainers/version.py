"""The library's version, as it stands in every map's provenance."""

VERSION = "0.1.0"
