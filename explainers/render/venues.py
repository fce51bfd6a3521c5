"""How wide the figures of the usual journals and conferences are, in millimetres."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Venue:
    """single: one column. double: the whole width of the text; None where there is one column."""

    name: str
    single: float
    double: float | None = None


VENUES = (
    Venue("Nature", 89, 183),
    Venue("Cell Press", 85, 174),
    Venue("PNAS", 87, 178),
    Venue("IEEE", 88.9, 181),
    Venue("Elsevier", 90, 190),
    Venue("Springer", 84, 174),
    Venue("CVPR, ICCV", 83, 174),
    Venue("ICML", 82.5, 171.4),
    Venue("NeurIPS, ICLR", 139.7),
    Venue("ECCV (LNCS)", 122),
)
"""From the authors' guides and style files; where a style counts in inches (3.5 in for IEEE,
6.875 in for CVPR, 5.5 in for NeurIPS) rounded down, so that a figure never sticks out."""
