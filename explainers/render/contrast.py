"""What a map counts in when its class is held against another one."""

from __future__ import annotations

from explainers.heatmap import HeatMap
from explainers.models.labels import short
from explainers.sentence import Sentence


def contrast_score(heat: HeatMap) -> Sentence | None:
    """The number that the map explains, as `explainers.methods.scoring.Objective` makes it; None
    for a map without a contrast, of which its method's own texts are true."""
    if heat.target is None or heat.against is None:
        return None
    names = {"target": short(heat.target.label), "against": short(heat.against.label)}
    if heat.parameters.get("score", "logit") == "probability":
        return Sentence(
            "contrast_probability",
            "The score here is the probability of {target} minus that of {against}.",
            **names,
        )
    return Sentence(
        "contrast_logit",
        "The score here is the logit of {target} minus that of {against}.",
        **names,
    )


def contrast_unit(unit: str, heat: HeatMap) -> str:
    """A unit as it is for the map: "fall of the difference of probabilities" with a contrast."""
    if heat.against is None:
        return unit
    unit = unit.replace("logit", "difference of logits")
    return unit.replace("probability", "difference of probabilities")
