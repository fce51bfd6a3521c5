"""Integrated gradients (Sundararajan et al., ICML 2017), through Captum."""

from __future__ import annotations

from explainers.attention_call import exact
from explainers.heatmap import Finding
from explainers.methods import baselines
from explainers.methods.pixel_maps import RESOLUTION, pixel_finding
from explainers.methods.scoring import Objective, Progress, Scorer
from explainers.methods.shared_pass import leaf
from explainers.registry import Method, Parameter, register
from explainers.sentence import Sentence
from explainers.trace import Trace

_BATCH = 4  # pictures a model call: Cancel is obeyed between calls
_LARGE_ERROR = 5.0  # per cent


def integrated_gradients(
    trace: Trace,
    objective: Objective,
    progress: Progress,
    *,
    baseline: str,
    steps: int,
    resolution: str,
) -> Finding:
    """(x − x') ∫ ∂y/∂x along the straight way from the baseline x', Σ over channels; signed.

    Complete: the values sum to y(x) − y(x'). How far they miss it is reported as
    ``completeness_error_percent`` in per cent of that difference.
    """
    # Captum brings pyplot along, a second of start-up: only when it is used.
    from captum.attr import IntegratedGradients

    scorer = Scorer(trace.model, objective, progress, total=steps + 2)
    attributions, delta = IntegratedGradients(scorer).attribute(
        exact(leaf(trace)),  # the way and its sum are finer than a model in half precision
        baselines=exact(baselines.baseline(trace, baseline)[None]),
        n_steps=steps,
        internal_batch_size=_BATCH,
        return_convergence_delta=True,
    )
    attributions = attributions.detach()
    missed = abs(float(delta[0]))
    difference = abs(float(attributions.sum() - delta[0]))
    error = 100 * missed / max(difference, 1e-12)
    notes: tuple[Sentence, ...] = ()
    if error > _LARGE_ERROR:
        notes = (
            Sentence(
                "completeness",
                "The values miss the score they should add up to by {error} %; take more steps.",
                error=f"{error:.1f}",
            ),
        )
    return pixel_finding(
        trace,
        attributions[0].sum(0),
        resolution,
        figures={"completeness_error_percent": error, "score_difference": difference},
        notes=notes,
    )


METHOD = register(
    Method(
        name="integrated_gradients",
        title="Integrated gradients",
        meaning="How much each pixel adds to this class's score on the way from a picture of "
        "nothing to the photo; all pixels together make up the whole difference.",
        question="counted",
        class_specific=True,
        signed=True,
        unit="logit",
        needs=("class", "gradients"),
        cost=lambda parameters, patches: 3 * parameters["steps"] + 2,
        paper="Sundararajan, Taly & Yan, Axiomatic Attribution for Deep Networks, ICML 2017",
        bibtex="""@inproceedings{sundararajan2017axiomatic,
  title={Axiomatic Attribution for Deep Networks},
  author={Sundararajan, Mukund and Taly, Ankur and Yan, Qiqi},
  booktitle={ICML}, year={2017}}""",
        limits='The answer depends on the baseline: what "nothing" looks like is a choice.',
        function=integrated_gradients,
        parameters=(
            baselines.baseline_parameter(
                "baseline", "black", "The picture of nothing to start from."
            ),
            Parameter(
                "steps", 32, "integer", "Points on the way; more are more exact.", low=1, high=500
            ),
            RESOLUTION,
        ),
    )
)
