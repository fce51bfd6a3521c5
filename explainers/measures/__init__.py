"""How far to trust a map: deletion and insertion, and two sanity checks of its method."""

from explainers.measures.curves import Curve
from explainers.measures.measure import Measure, measure
from explainers.measures.sanity import Sanity, sanity

__all__ = ["Curve", "Measure", "Sanity", "measure", "sanity"]
